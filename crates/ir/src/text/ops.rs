//! Blocks and ops: the generic form, and what every form ends in: an op of the function.

use super::lexer::{Place, Token, shorten};
use super::locations::SourceLoc;
use super::parser::{Draft, Fault, MAX_ERRORS, Parse, Parser, place_location};
use super::types::Type;
use crate::attribute::{Attribute, Attributes};
use crate::error::Error;
use crate::function::{Block, BlockId, ValueData, ValueDef, ValueId};
use crate::ops::{Check, Elementwise, Op, Signature, StructuredOp};
use crate::types::TensorType;
use cranelift_entity::EntityRef;

impl<'a> Parser<'a> {
    /// `{ ops }`, its arguments given or written as `^bb0(...)`.
    pub(super) fn region(&mut self, arguments: Vec<(&'a str, Type<'a>, Place)>) -> Parse<BlockId> {
        let block = self.function.add_block();
        let scope = self.defined.len();
        for (name, ty, place) in arguments {
            self.argument(block, name, ty, place);
        }
        self.block(block)?;
        self.leave_scope(scope);
        Ok(block)
    }

    /// The ops of a block, with its braces.
    pub(super) fn block(&mut self, block: BlockId) -> Parse<()> {
        self.enter()?;
        let open = self.lex.start;
        self.expect(b'{')?;
        if let Token::Caret(_) = self.lex.token {
            self.block_label(block)?;
        }
        let mut returned = false;
        while !self.accept(b'}') {
            let place = self.lex.start;
            if returned {
                let message = match self.lex.token {
                    Token::Caret(_) => "a region has one block; branches are not StableHLO",
                    _ => "an op follows the block's return",
                };
                return Err(self.error_here(message));
            }
            if self.errors.len() > MAX_ERRORS {
                return Err(Box::new(Error::new(
                    format!("more than {MAX_ERRORS} faults; the rest is not read"),
                    &place_location(place),
                )));
            }
            returned = self.operation(block)?;
        }
        if !returned {
            self.report("the block that starts here does not end with a return", open);
        }
        self.leave();
        Ok(())
    }

    fn block_label(&mut self, block: BlockId) -> Parse<()> {
        self.lex.bump();
        if self.accept(b'(') && !self.accept(b')') {
            loop {
                let (name, ty, place) = self.block_argument()?;
                self.argument(block, name, ty, place);
                if !self.accept(b',') {
                    break;
                }
            }
            self.expect(b')')?;
        }
        self.expect(b':')
    }

    /// `%name: type loc(...)`.
    pub(super) fn block_argument(&mut self) -> Parse<(&'a str, Type<'a>, Place)> {
        let place = self.lex.start;
        let Token::Value(name) = self.lex.token else {
            return Err(self.expected("an argument"));
        };
        self.lex.bump();
        self.expect(b':')?;
        let ty = self.parse_type()?;
        self.trailing_location()?;
        Ok((name, ty, place))
    }

    /// One op; true if it is the block's return.
    fn operation(&mut self, block: BlockId) -> Parse<bool> {
        let place = self.lex.start;
        let results = self.result_names()?;
        let start = self.lex.start;
        let mut draft = Draft {
            name: "",
            place: start,
            operands: Vec::new(),
            attributes: Attributes::new(),
            regions: Vec::new(),
            operand_types: Vec::new(),
            result_types: Vec::new(),
        };
        match self.lex.token {
            Token::Text(name) => {
                draft.name = name;
                self.lex.bump();
                self.generic(&mut draft)?;
            }
            Token::Word("sdy.sharding_constraint") => {
                self.sharding_constraint(results)?;
                return Ok(false);
            }
            Token::Word(name) => {
                draft.name = name;
                self.lex.bump();
                let (lexer, depth, scope) = (self.lex.clone(), self.depth, self.defined.len());
                let known = match self.pretty(&mut draft) {
                    Ok(known) => known,
                    Err(_) if !self.exists(name) => {
                        // Its syntax is not known either.
                        self.lex = lexer;
                        self.depth = depth;
                        self.leave_scope(scope);
                        false
                    }
                    Err(error) => return Err(error),
                };
                if !known {
                    self.skip_operation()?;
                    self.report_op(unsupported(name), start, None);
                    for (name, count, place) in results {
                        self.define(name, None, count, place);
                    }
                    return Ok(false);
                }
            }
            _ => return Err(self.expected("an op")),
        }
        let location = self.trailing_location()?;
        if draft.name == "stablehlo.custom_call" {
            self.custom_call(&mut draft);
        }
        if matches!(draft.name, "stablehlo.return" | "func.return" | "return" | "mhlo.return") {
            if !results.is_empty() {
                self.report("a return has no results", place);
            }
            self.finish_return(&draft, block);
            return Ok(true);
        }
        self.finish(draft, block, results, location);
        Ok(false)
    }

    /// `sdy.sharding_constraint %a <@mesh, ...> : type`: on one device, another name of `%a`.
    fn sharding_constraint(&mut self, results: Vec<(&'a str, u32, Place)>) -> Parse<()> {
        self.lex.bump();
        let operand = self.operand()?;
        if self.lex.token != Token::Punct(b'<') {
            return Err(self.expected("a sharding"));
        }
        let end = self.lex.matching(self.lex.start.offset);
        let end = end.ok_or_else(|| self.error_here("`<` is not closed"))?;
        self.lex.jump(end);
        self.optional_dict()?;
        self.expect(b':')?;
        self.parse_type()?;
        self.trailing_location()?;
        for (name, count, place) in results {
            self.define(name, operand, count, place);
        }
        Ok(())
    }

    /// Whether there is an op of this name, or a form that stands for one.
    fn exists(&self, name: &str) -> bool {
        name.ends_with("return")
            || name == "call"
            || Op::from_name(name, &mut Attributes::new(), &Signature::default()).is_some()
    }

    /// A custom call of a test's check is that check.
    fn custom_call(&mut self, draft: &mut Draft<'a>) {
        let Some(Attribute::String(target)) = draft.attributes.get("call_target_name") else {
            return;
        };
        if let Some(name) = Check::NAMES.iter().find(|name| *name == target) {
            draft.name = name;
        }
    }

    /// `%a, %b:2 = `.
    fn result_names(&mut self) -> Parse<Vec<(&'a str, u32, Place)>> {
        let mut results = Vec::new();
        while let Token::Value(name) = self.lex.token {
            let place = self.lex.start;
            self.lex.bump();
            let mut count = 1;
            if self.accept(b':') {
                count = u32::try_from(self.integer()?)
                    .ok()
                    .filter(|&count| count > 0)
                    .ok_or_else(|| self.error_here("the number of results is out of range"))?;
            }
            results.push((name, count, place));
            if !self.accept(b',') {
                self.expect(b'=')?;
                break;
            }
        }
        Ok(results)
    }

    /// `(operands) <{properties}> ({regions}) {attributes} : (types) -> types`.
    fn generic(&mut self, draft: &mut Draft<'a>) -> Parse<()> {
        self.expect(b'(')?;
        draft.operands = self.operands()?;
        self.expect(b')')?;
        if self.lex.token == Token::Punct(b'[') {
            return Err(self.error_here("branches to other blocks are not StableHLO"));
        }
        if self.accept(b'<') {
            draft.attributes = self.attribute_dict()?;
            self.expect(b'>')?;
        }
        if self.accept(b'(') {
            loop {
                let block = self.region(Vec::new())?;
                draft.regions.push(block);
                if !self.accept(b',') {
                    break;
                }
            }
            self.expect(b')')?;
        }
        if self.lex.token == Token::Punct(b'{') {
            let more = self.attribute_dict()?;
            draft.attributes.0.extend(more.0);
        }
        self.expect(b':')?;
        let (operands, results) = self.function_type()?;
        draft.operand_types = operands;
        draft.result_types = results;
        Ok(())
    }

    /// The operands if all their types are known and are those that the text gives.
    fn check_operands(
        &mut self,
        draft: &Draft<'a>,
        location: Option<&SourceLoc<'a>>,
    ) -> Option<Vec<ValueId>> {
        if draft.operand_types.len() != draft.operands.len() {
            let message = format!(
                "{}: {} operand(s), but types of {}",
                draft.name,
                draft.operands.len(),
                draft.operand_types.len()
            );
            self.report_op(Fault::Wrong(message), draft.place, location);
            return None;
        }
        let mut values = Vec::with_capacity(draft.operands.len());
        let mut complete = true;
        for (position, (operand, ty)) in draft.operands.iter().zip(&draft.operand_types).enumerate()
        {
            let Some(value) = *operand else {
                complete = false;
                continue;
            };
            values.push(value);
            if let Type::Tensor(ty) = ty {
                let actual = self.function.ty(value);
                if actual != ty {
                    let message = format!(
                        "{}: operand {position} is {actual}, but the op's type says {ty}",
                        draft.name
                    );
                    self.report_op(Fault::Wrong(message), draft.place, location);
                    complete = false;
                }
            } else {
                self.tensor_type(ty.clone(), draft.place);
                complete = false;
            }
        }
        complete.then_some(values)
    }

    fn finish_return(&mut self, draft: &Draft<'a>, block: BlockId) {
        match self.check_operands(draft, None) {
            Some(values) => self.function.blocks[block].yields = values,
            None => {
                self.poisoned_blocks.insert(block);
            }
        }
    }

    /// Makes the op, appends it to the block, and names its results.
    fn finish(
        &mut self,
        draft: Draft<'a>,
        block: BlockId,
        results: Vec<(&'a str, u32, Place)>,
        location: Option<SourceLoc<'a>>,
    ) {
        let operands = self.check_operands(&draft, location.as_ref());
        let Draft { name, place, mut attributes, regions, result_types, .. } = draft;
        let count = result_types.len();
        let types: Option<Vec<TensorType>> = {
            let known: Vec<_> =
                result_types.into_iter().map(|ty| self.tensor_type(ty, place)).collect();
            known.into_iter().collect()
        };
        let named: u64 = results.iter().map(|&(_, count, _)| u64::from(count)).sum();
        if named != count as u64 && !(results.is_empty()) {
            let message = format!("{name}: {named} result(s) are named, but it has {count}");
            self.report_op(Fault::Wrong(message), place, location.as_ref());
        }
        // An attribute whose fault is noted already stands as an empty text.
        let broken = |(_, value): &(_, Attribute)| *value == Attribute::Raw(String::new());
        let complete = !regions.iter().any(|block| self.poisoned_blocks.contains(block))
            && !attributes.0.iter().any(broken);
        let op = match (&operands, &types) {
            (Some(operands), Some(types)) if complete => {
                self.make(name, operands, &mut attributes, types, &regions)
            }
            // Whether there is such an op is said in any case.
            _ => match Op::from_name(name, &mut attributes, &Signature::default()) {
                None => Some(Err(unsupported(name))),
                Some(_) => None,
            },
        };
        let first = match (op, operands, types) {
            (Some(Ok(op)), Some(operands), Some(types)) => {
                let place = place_location(place);
                let id = self.function.push_op(block, op, &operands, types, &regions, place);
                if let Some(location) = location {
                    self.located.push((self.functions.len(), id, location));
                }
                self.function.ops[id].results.first().copied()
            }
            (op, _, types) => {
                if let Some(Err(fault)) = op {
                    self.report_op(fault, place, location.as_ref());
                }
                types.and_then(|types| self.placeholders(types))
            }
        };
        let mut next = first;
        let mut left = count as u64;
        for (name, count, place) in results {
            let here = u64::from(count) <= left;
            self.define(name, next.filter(|_| here), count, place);
            left = left.saturating_sub(u64::from(count));
            next = next.filter(|_| here).map(|v| ValueId::new(v.index() + count as usize));
        }
    }

    fn make(
        &self,
        name: &str,
        operands: &[ValueId],
        attributes: &mut Attributes,
        types: &[TensorType],
        regions: &[BlockId],
    ) -> Option<Result<Op, Fault>> {
        if let Some(op) = Elementwise::from_name(name) {
            return Some(Ok(Op::Elementwise(op)));
        }
        let of = |values: &[ValueId]| -> Vec<TensorType> {
            values.iter().map(|&v| self.function.ty(v).clone()).collect()
        };
        let region = |&block: &BlockId| {
            let Block { arguments, yields, .. } = &self.function.blocks[block];
            (of(arguments), of(yields))
        };
        let signature = Signature {
            operands: of(operands),
            results: types.to_vec(),
            regions: regions.iter().map(region).collect(),
        };
        Some(match Op::from_name(name, attributes, &signature) {
            None => Err(unsupported(name)),
            Some(Ok(op)) => match op.unsupported() {
                Some(what) => Err(unsupported(&what)),
                None => Ok(op),
            },
            Some(Err(message)) => {
                let short = name.split_once('.').map_or(name, |(_, short)| short);
                let named = message.starts_with(short) || message.starts_with(name);
                Err(Fault::Wrong(if named { message } else { format!("{short}: {message}") }))
            }
        })
    }

    /// Values for the results of an op that could not be made: the module is not returned, but
    /// later ops are checked against their types.
    fn placeholders(&mut self, types: Vec<TensorType>) -> Option<ValueId> {
        let mut first = None;
        for ty in types {
            let def = ValueDef::Argument(self.function.body, u32::MAX);
            let value = self.function.values.push(ValueData { ty, def });
            first = first.or(Some(value));
        }
        first
    }

    /// Passes over an op of unknown syntax: up to the next line that starts like an op.
    pub(super) fn skip_operation(&mut self) -> Parse<()> {
        loop {
            match self.lex.token {
                Token::End | Token::Punct(b'}') => return Ok(()),
                Token::Value(_) | Token::Word(_) | Token::Text(_) | Token::Caret(_)
                    if self.lex.start.line > self.lex.before_line =>
                {
                    return Ok(());
                }
                Token::Bad(_) => return Err(self.expected("an op")),
                Token::Punct(b'(' | b'[' | b'{') => {
                    let end = self.lex.matching(self.lex.start.offset);
                    let end = end.ok_or_else(|| self.error_here("the bracket is not closed"))?;
                    self.lex.jump(end);
                }
                _ => self.lex.bump(),
            }
        }
    }
}

/// The fault of an op that there is none of.
pub(super) fn unsupported(name: &str) -> Fault {
    let name = shorten(name);
    Fault::Unsupported(match name.split_once('.') {
        Some(("stablehlo" | "chlo", _)) => format!("{name} is not supported"),
        Some(("vhlo", _)) => format!(
            "{name} is not supported: VHLO is StableHLO's portable form; print the program as \
             StableHLO (stablehlo-translate --deserialize)"
        ),
        Some(("mhlo", _)) => {
            format!("{name} is not supported: export the program as StableHLO, not as MHLO")
        }
        _ => format!("{name} is not supported: programs consist of stablehlo and chlo ops"),
    })
}
