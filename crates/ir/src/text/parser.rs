//! The parser's state, names and scopes, and ops: generic form here, pretty forms in
//! [`super::pretty`], modules and functions in [`super::module`].
//!
//! A fault of syntax ends parsing. A fault of meaning (an unsupported op, a wrong type, an unknown
//! name) is noted, and parsing goes on: the text declares every result's type, so that later ops can
//! still be checked. A value whose type is not known is *poisoned*: ops on it are not checked.

use super::lexer::{Lexer, Place, Token, shorten};
use super::locations::{Locations, SourceLoc};
use super::types::Type;
use crate::attribute::{Attribute, Attributes};
use crate::error::{Error, Location};
use crate::function::{Block, BlockId, Function, OpId, ValueData, ValueDef, ValueId};
use crate::ops::{Check, Elementwise, Op, Signature, StructuredOp};
use crate::types::TensorType;
use cranelift_entity::EntityRef;
use rustc_hash::{FxHashMap, FxHashSet};

/// A result, or the fault of syntax that ends parsing.
pub(super) type Parse<T> = Result<T, Box<Error>>;

/// Regions, lists and locations nested deeper than this are refused.
const MAX_DEPTH: u32 = 100;
/// Parsing ends after so many faults.
const MAX_ERRORS: usize = 1000;

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
    /// The function being read.
    pub(super) function: Function,
    /// Ops whose location waits for the aliases at the end of the text.
    pub(super) located: Vec<(usize, OpId, SourceLoc<'a>)>,
    errors: Vec<(Error, Option<SourceLoc<'a>>)>,
    names: FxHashMap<&'a str, Named>,
    /// Names in the order of their definitions, for leaving a scope.
    defined: Vec<&'a str>,
    reported_types: FxHashSet<&'a str>,
    /// Blocks of the function whose yields are not known.
    pub(super) poisoned_blocks: FxHashSet<BlockId>,
    depth: u32,
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

    // ---- Tokens.

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

    // ---- Faults.

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
        self.report_op(message.into(), place, None);
    }

    /// Notes a fault of meaning of an op with a location.
    pub(super) fn report_op(
        &mut self,
        message: String,
        place: Place,
        location: Option<&SourceLoc<'a>>,
    ) {
        if self.errors.len() <= MAX_ERRORS {
            let error = Error::new(message, &place_location(place));
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

    // ---- Names.

    /// Forgets every name, for the next function.
    pub(super) fn clear_names(&mut self) {
        self.names.clear();
        self.defined.clear();
        self.poisoned_blocks.clear();
    }

    fn define(&mut self, name: &'a str, first: Option<ValueId>, count: u32, place: Place) {
        let named = Named { first, count };
        if self.names.insert(name, named).is_some() {
            self.report(format!("%{} is defined twice", shorten(name)), place);
        }
        self.defined.push(name);
    }

    fn leave_scope(&mut self, defined: usize) {
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
                    self.report(format!("type {}: {reason}", shorten(text)), place);
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

    // ---- Blocks and ops.

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
                    self.report(unsupported(name), start);
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
            self.report_op(message, draft.place, location);
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
                    self.report_op(message, draft.place, location);
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
            self.report_op(message, place, location.as_ref());
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
                if let Some(Err(message)) = op {
                    self.report_op(message, place, location.as_ref());
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
    ) -> Option<Result<Op, String>> {
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
                Err(if named { message } else { format!("{short}: {message}") })
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

/// The message for an op that there is none of.
fn unsupported(name: &str) -> String {
    let name = shorten(name);
    match name.split_once('.') {
        Some(("stablehlo" | "chlo", _)) => format!("{name} is not supported"),
        _ => format!("{name} is not supported: programs consist of stablehlo and chlo ops"),
    }
}

/// A location that is only a place in the text.
pub(super) fn place_location(place: Place) -> Location {
    Location { text: (place.line, place.column), source: None, name: None }
}
