//! The parser's state: tokens, faults, names and their scopes.
//!
//! A fault of syntax ends parsing. A fault of meaning (an unsupported op, a wrong type, an unknown
//! name) is noted, and parsing goes on: the text declares every result's type, so that later ops can
//! still be checked. A value whose type is not known is *poisoned*: ops on it are not checked.

use super::lexer::{Lexer, Place, Token, shorten};
use super::locations::{Locations, SourceLoc};
use super::types::Type;
use crate::attribute::{Attribute, Attributes};
use crate::error::{Error, Location};
use crate::function::{BlockId, Function, OpId, ValueId};
use crate::types::TensorType;
use cranelift_entity::EntityRef;
use rustc_hash::{FxHashMap, FxHashSet};

/// A result, or the fault of syntax that ends parsing.
pub(super) type Parse<T> = Result<T, Box<Error>>;

/// Regions, lists and locations nested deeper than this are refused.
const MAX_DEPTH: u32 = 100;
/// Parsing ends after so many faults.
pub(super) const MAX_ERRORS: usize = 1000;

/// What a name stands for.
#[derive(Clone, Copy)]
struct Named {
    /// The first of its values; None if their types are not known.
    first: Option<ValueId>,
    count: u32,
}

/// An operand; None if its type is not known.
pub(super) type Operand = Option<ValueId>;

/// An op as far as it is read.
pub(super) struct Draft<'a> {
    pub(super) name: &'a str,
    pub(super) place: Place,
    pub(super) operands: Vec<Operand>,
    pub(super) attributes: Attributes,
    pub(super) regions: Vec<BlockId>,
    /// The operand types that the text gives.
    pub(super) operand_types: Vec<Type<'a>>,
    pub(super) result_types: Vec<Type<'a>>,
}

pub(super) struct Parser<'a> {
    pub(super) lex: Lexer<'a>,
    pub(super) attribute_aliases: FxHashMap<&'a str, (Attribute, usize)>,
    /// Sizes of the alias expansions so far.
    pub(super) expanded: usize,
    pub(super) type_aliases: FxHashMap<&'a str, Type<'a>>,
    pub(super) locations: Locations<'a>,
    pub(super) resources: Option<FxHashMap<&'a str, &'a str>>,
    pub(super) functions: Vec<Function>,
    pub(super) function_names: FxHashSet<String>,
    /// The function being read.
    pub(super) function: Function,
    /// Ops whose location waits for the aliases at the end of the text.
    pub(super) located: Vec<(usize, OpId, SourceLoc<'a>)>,
    pub(super) errors: Vec<(Error, Option<SourceLoc<'a>>)>,
    names: FxHashMap<&'a str, Named>,
    /// Names in the order of their definitions, for leaving a scope.
    pub(super) defined: Vec<&'a str>,
    reported_types: FxHashSet<&'a str>,
    /// Blocks of the function whose yields are not known.
    pub(super) poisoned_blocks: FxHashSet<BlockId>,
    pub(super) depth: u32,
}

impl<'a> Parser<'a> {
    /// A parser of a text whose first line counts as `first_line`.
    pub(super) fn new(source: &'a str, first_line: u32) -> Parser<'a> {
        Parser {
            lex: Lexer::new(source, first_line),
            attribute_aliases: FxHashMap::default(),
            expanded: 0,
            type_aliases: FxHashMap::default(),
            locations: Locations::default(),
            resources: None,
            functions: Vec::new(),
            function_names: FxHashSet::default(),
            function: Function::new(""),
            located: Vec::new(),
            errors: Vec::new(),
            names: FxHashMap::default(),
            defined: Vec::new(),
            reported_types: FxHashSet::default(),
            poisoned_blocks: FxHashSet::default(),
            depth: 0,
        }
    }

    /// Passes over the character if it comes next.
    pub(super) fn accept(&mut self, punct: u8) -> bool {
        let found = self.lex.token == Token::Punct(punct);
        if found {
            self.lex.bump();
        }
        found
    }

    /// Passes over the character, which must come next.
    pub(super) fn expect(&mut self, punct: u8) -> Parse<()> {
        if self.accept(punct) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{}`", punct as char)))
        }
    }

    /// Passes over the word if it comes next.
    pub(super) fn accept_word(&mut self, word: &str) -> bool {
        let found = self.lex.token == Token::Word(word);
        if found {
            self.lex.bump();
        }
        found
    }

    /// Passes over the word, which must come next.
    pub(super) fn expect_word(&mut self, word: &str) -> Parse<()> {
        if self.accept_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    /// Passes over an integer.
    pub(super) fn integer(&mut self) -> Parse<i64> {
        let Token::Integer(digits) = self.lex.token else {
            return Err(self.expected("an integer"));
        };
        let value = super::literals::parse_int(digits)
            .and_then(|v| i64::try_from(v).ok())
            .ok_or_else(|| self.error_here("the integer does not fit into 64 bits"))?;
        self.lex.bump();
        Ok(value)
    }

    /// A fault of syntax at the current token.
    pub(super) fn error_here(&self, message: impl Into<String>) -> Box<Error> {
        Box::new(Error::new(message, &place_location(self.lex.start)))
    }

    /// "expected ..., found ...".
    pub(super) fn expected(&self, what: &str) -> Box<Error> {
        self.error_here(format!("expected {what}, found {}", self.lex.token.describe()))
    }

    /// Notes a fault of meaning.
    pub(super) fn report(&mut self, message: impl Into<String>, place: Place) {
        self.report_op(Fault::Wrong(message.into()), place, None);
    }

    /// Notes a fault of meaning of an op with a location.
    pub(super) fn report_op(
        &mut self,
        fault: Fault,
        place: Place,
        location: Option<&SourceLoc<'a>>,
    ) {
        if self.errors.len() <= MAX_ERRORS {
            let (message, unsupported) = match fault {
                Fault::Wrong(message) => (message, false),
                Fault::Unsupported(message) => (message, true),
            };
            let error = Error { unsupported, ..Error::new(message, &place_location(place)) };
            self.errors.push((error, location.cloned()));
        }
    }

    /// The faults so far, their locations resolved.
    pub(super) fn take_errors(&mut self) -> Vec<Error> {
        let mut errors = Vec::new();
        for (mut error, location) in std::mem::take(&mut self.errors) {
            if let Some(location) = location {
                self.locations.fill(&location, &mut error.location);
            }
            errors.push(error);
        }
        errors.sort_by_key(|error| error.location.text);
        errors
    }

    /// Counts one more level of nesting; to be matched by [`Parser::leave`].
    pub(super) fn enter(&mut self) -> Parse<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error_here(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }

    /// Ends a level of nesting.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Forgets every name, for the next function.
    pub(super) fn clear_names(&mut self) {
        self.names.clear();
        self.defined.clear();
        self.poisoned_blocks.clear();
    }

    pub(super) fn define(
        &mut self,
        name: &'a str,
        first: Option<ValueId>,
        count: u32,
        place: Place,
    ) {
        let named = Named { first, count };
        if self.names.insert(name, named).is_some() {
            self.report(format!("%{} is defined twice", shorten(name)), place);
        }
        self.defined.push(name);
    }

    pub(super) fn leave_scope(&mut self, defined: usize) {
        for name in self.defined.drain(defined..) {
            self.names.remove(name);
        }
    }

    /// A value's use: `%name` or `%name#1`.
    pub(super) fn operand(&mut self) -> Parse<Operand> {
        let Token::Value(name) = self.lex.token else {
            return Err(self.expected("a value"));
        };
        let place = self.lex.start;
        let numbered = self.lex.byte(self.lex.at) == b'#';
        self.lex.bump();
        let mut number = 0u32;
        if numbered {
            let digits = match self.lex.token {
                Token::Hash(digits) => digits.parse().ok(),
                _ => None,
            };
            number = digits.ok_or_else(|| self.expected("a result number behind `#`"))?;
            self.lex.bump();
        }
        match self.names.get(name).copied() {
            None => {
                self.report(
                    format!("%{} is used but not defined before or around its use", shorten(name)),
                    place,
                );
                Ok(None)
            }
            Some(Named { count, .. }) if number >= count => {
                let message = format!("%{}#{number}: %{0} has {count} value(s)", shorten(name));
                self.report(message, place);
                Ok(None)
            }
            Some(Named { first, .. }) => {
                Ok(first.map(|first| ValueId::new(first.index() + number as usize)))
            }
        }
    }

    /// `%a, %b, ...`, perhaps none.
    pub(super) fn operands(&mut self) -> Parse<Vec<Operand>> {
        let mut operands = Vec::new();
        if matches!(self.lex.token, Token::Value(_)) {
            operands.push(self.operand()?);
            while self.accept(b',') {
                operands.push(self.operand()?);
            }
        }
        Ok(operands)
    }

    /// The tensor type; a fault is noted where it is another one, once for each spelling.
    pub(super) fn tensor_type(&mut self, ty: Type<'a>, place: Place) -> Option<TensorType> {
        match ty {
            Type::Tensor(ty) => Some(ty),
            Type::Function(..) => {
                self.report("a value cannot be a function", place);
                None
            }
            Type::Unsupported(text, reason) => {
                if self.reported_types.insert(text) {
                    let message = format!("type {}: {reason}", shorten(text));
                    self.report_op(Fault::Unsupported(message), place, None);
                }
                None
            }
        }
    }

    /// Adds an argument to a block and names it.
    pub(super) fn argument(&mut self, block: BlockId, name: &'a str, ty: Type<'a>, place: Place) {
        let ty = self.tensor_type(ty, place);
        let poisoned = ty.is_none();
        let ty = ty.unwrap_or(TensorType::scalar(jaxrs_kernel::DType::F32));
        let value = self.function.add_argument(block, ty);
        self.define(name, Some(value).filter(|_| !poisoned), 1, place);
    }
}

/// A fault of meaning.
pub(super) enum Fault {
    /// The text is no program.
    Wrong(String),
    /// The text may be a program, of what is not supported.
    Unsupported(String),
}

/// A location that is only a place in the text.
pub(super) fn place_location(place: Place) -> Location {
    Location { text: (place.line, place.column), source: None, name: None }
}
