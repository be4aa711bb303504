//! `loc(...)`: where the JAX program made an op.
//!
//! Ops refer to aliases (`loc(#loc12)`) that stand at the end of the text, so that locations are
//! resolved when all of it is read. Of a location, the innermost file, line and column and the
//! outermost name are kept.

use super::lexer::{Token, unescape};
use super::parser::{Parse, Parser};
use crate::error::Location;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A location as the text spells it.
#[derive(Clone, Debug)]
pub(super) enum SourceLoc<'a> {
    Unknown,
    Alias(&'a str),
    File(&'a str, u32, u32),
    Name(&'a str, Option<Box<SourceLoc<'a>>>),
    /// Callee, caller.
    CallSite(Box<SourceLoc<'a>>, Box<SourceLoc<'a>>),
    Fused(Vec<SourceLoc<'a>>),
}

/// What is kept of a location.
#[derive(Clone, Debug, Default)]
struct Resolved {
    source: Option<(Arc<str>, u32, u32)>,
    name: Option<Arc<str>>,
}

/// Location aliases, and what they stand for.
#[derive(Default)]
pub(super) struct Locations<'a> {
    aliases: FxHashMap<&'a str, SourceLoc<'a>>,
    resolved: FxHashMap<&'a str, Resolved>,
    files: FxHashMap<&'a str, Arc<str>>,
}

/// Chains of aliases longer than this are cut (a text may hold a cycle).
const MAX_CHAIN: u32 = 100;

impl<'a> Locations<'a> {
    /// Sets source and name of a location.
    pub(super) fn fill(&mut self, from: &SourceLoc<'a>, location: &mut Location) {
        let resolved = self.resolve(from, 0);
        location.source = resolved.source;
        location.name = resolved.name;
    }

    fn resolve(&mut self, location: &SourceLoc<'a>, chain: u32) -> Resolved {
        if chain > MAX_CHAIN {
            return Resolved::default();
        }
        match location {
            SourceLoc::Unknown => Resolved::default(),
            SourceLoc::File(file, line, column) => {
                let file = self.file(file);
                Resolved { source: Some((file, *line, *column)), name: None }
            }
            SourceLoc::Name(name, inner) => {
                let inner = inner.as_ref().map(|inner| self.resolve(inner, chain + 1));
                Resolved {
                    source: inner.and_then(|inner| inner.source),
                    name: Some(unescape(name).into()),
                }
            }
            SourceLoc::CallSite(callee, caller) => {
                let callee = self.resolve(callee, chain + 1);
                if callee.source.is_some() && callee.name.is_some() {
                    return callee;
                }
                let caller = self.resolve(caller, chain + 1);
                Resolved {
                    source: callee.source.or(caller.source),
                    name: callee.name.or(caller.name),
                }
            }
            SourceLoc::Fused(parts) => {
                let mut all = Resolved::default();
                for part in parts {
                    let part = self.resolve(part, chain + 1);
                    all.source = all.source.or(part.source);
                    all.name = all.name.or(part.name);
                }
                all
            }
            SourceLoc::Alias(name) => {
                if let Some(resolved) = self.resolved.get(name) {
                    return resolved.clone();
                }
                let Some(location) = self.aliases.get(name).cloned() else {
                    return Resolved::default();
                };
                // An alias met again while it is being resolved is unknown: no endless chain.
                self.resolved.insert(name, Resolved::default());
                let resolved = self.resolve(&location, chain + 1);
                self.resolved.insert(name, resolved.clone());
                resolved
            }
        }
    }

    fn file(&mut self, raw: &'a str) -> Arc<str> {
        self.files.entry(raw).or_insert_with(|| unescape(raw).into()).clone()
    }
}

impl<'a> Parser<'a> {
    /// `loc(...)` if it comes next.
    pub(super) fn trailing_location(&mut self) -> Parse<Option<SourceLoc<'a>>> {
        if self.lex.token != Token::Word("loc") {
            return Ok(None);
        }
        self.lex.bump();
        self.expect(b'(')?;
        let location = self.location()?;
        self.expect(b')')?;
        Ok(Some(location))
    }

    /// What follows `#name = `, where it is a location.
    pub(super) fn location_alias(&mut self, name: &'a str) -> Parse<()> {
        if let Some(location) = self.trailing_location()? {
            self.locations.aliases.insert(name, location);
        }
        Ok(())
    }

    fn location(&mut self) -> Parse<SourceLoc<'a>> {
        self.enter()?;
        let location = match self.lex.token {
            Token::Hash(name) => {
                self.lex.bump();
                SourceLoc::Alias(name)
            }
            Token::Text(text) => {
                self.lex.bump();
                self.file_or_name(text)?
            }
            Token::Word("unknown") => {
                self.lex.bump();
                SourceLoc::Unknown
            }
            Token::Word("loc") => {
                let inner = self.trailing_location()?;
                inner.unwrap_or(SourceLoc::Unknown)
            }
            Token::Word("callsite") => {
                self.lex.bump();
                self.expect(b'(')?;
                let callee = self.location()?;
                self.expect_word("at")?;
                let caller = self.location()?;
                self.expect(b')')?;
                SourceLoc::CallSite(Box::new(callee), Box::new(caller))
            }
            Token::Word("fused") => {
                self.lex.bump();
                if self.accept(b'<') {
                    self.attribute()?;
                    self.expect(b'>')?;
                }
                self.expect(b'[')?;
                let mut parts = Vec::new();
                if !self.accept(b']') {
                    loop {
                        parts.push(self.location()?);
                        if !self.accept(b',') {
                            break;
                        }
                    }
                    self.expect(b']')?;
                }
                SourceLoc::Fused(parts)
            }
            _ => return Err(self.expected("a location")),
        };
        self.leave();
        Ok(location)
    }

    /// `"file":line:column`, perhaps with an end (`to line:column`, `to :column`), or
    /// `"name"(location)`, or `"name"`.
    fn file_or_name(&mut self, text: &'a str) -> Parse<SourceLoc<'a>> {
        if self.accept(b'(') {
            let inner = self.location()?;
            self.expect(b')')?;
            return Ok(SourceLoc::Name(text, Some(Box::new(inner))));
        }
        if !self.accept(b':') {
            return Ok(SourceLoc::Name(text, None));
        }
        let line = self.position()?;
        let column = if self.accept(b':') { self.position()? } else { 0 };
        if self.accept_word("to") {
            if let Token::Integer(_) = self.lex.token {
                self.position()?;
            }
            if self.accept(b':') {
                self.position()?;
            }
        }
        Ok(SourceLoc::File(text, line, column))
    }

    fn position(&mut self) -> Parse<u32> {
        let number = self.integer()?;
        Ok(u32::try_from(number).unwrap_or(0))
    }
}
