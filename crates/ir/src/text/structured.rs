//! The pretty forms that are no list of items: `convolution`, `reduce` and `while`.

use super::lexer::Token;
use super::parser::{Draft, Parse, Parser, place_location};
use super::types::Type;
use crate::attribute::{Attribute, Attributes};
use crate::function::BlockId;
use crate::ops::Elementwise;
use crate::types::TensorType;

impl<'a> Parser<'a> {
    /// `(%a, %b) dim_numbers = ..., window = {...} {attributes} : types`.
    pub(super) fn convolution(&mut self, draft: &mut Draft<'a>) -> Parse<()> {
        self.expect(b'(')?;
        draft.operands = self.operands()?;
        self.expect(b')')?;
        self.expect_word("dim_numbers")?;
        self.expect(b'=')?;
        let dimensions = self.convolution_dimensions()?;
        let value = Attribute::Struct("stablehlo.conv".into(), dimensions);
        draft.attributes.0.push(("dimension_numbers".into(), value));
        self.expect(b',')?;
        self.expect_word("window")?;
        self.expect(b'=')?;
        self.expect(b'{')?;
        while let Token::Word(key) = self.lex.token {
            self.lex.bump();
            self.expect(b'=')?;
            let name = match key {
                "stride" => "window_strides",
                "pad" => "padding",
                "lhs_dilate" => "lhs_dilation",
                "rhs_dilate" => "rhs_dilation",
                "reverse" => "window_reversal",
                _ => return Err(self.error_here(format!("a window has no {key}"))),
            };
            let value = flatten(self.ints()?);
            draft.attributes.0.push((name.into(), value));
            if !self.accept(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        self.rest(draft)
    }

    /// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
    pub(super) fn convolution_dimensions(&mut self) -> Parse<Attributes> {
        let input = self.convolution_axes(["b", "f"])?;
        self.expect_word("x")?;
        let kernel = self.convolution_axes(["i", "o"])?;
        if self.lex.token != Token::Arrow {
            return Err(self.expected("`->`"));
        }
        self.lex.bump();
        let output = self.convolution_axes(["b", "f"])?;
        let named = |prefix: &str, first: &str, second: &str| {
            [first, second, "spatial"].map(|part| {
                let plural = if part == "spatial" { "dimensions" } else { "dimension" };
                format!("{prefix}_{part}_{plural}")
            })
        };
        let mut fields = Attributes::new();
        for (names, (axes, spatial)) in [
            (named("input", "batch", "feature"), input),
            (named("kernel", "input_feature", "output_feature"), kernel),
            (named("output", "batch", "feature"), output),
        ] {
            for (name, axis) in names.iter().zip(axes) {
                fields = fields.with(name, Attribute::Int(axis.into(), None));
            }
            fields = fields.with_ints(&names[2], &spatial);
        }
        Ok(fields)
    }

    /// One bracket of a convolution's dimensions: the two lettered axes and the spatial ones.
    fn convolution_axes(&mut self, letters: [&str; 2]) -> Parse<([i64; 2], Vec<i64>)> {
        let mut lettered = [None; 2];
        let mut spatial = Vec::new();
        self.expect(b'[')?;
        let mut axis = 0;
        loop {
            match self.lex.token {
                Token::Word(word) if letters.contains(&word) => {
                    lettered[usize::from(word == letters[1])] = Some(axis);
                    self.lex.bump();
                }
                Token::Integer(_) => spatial.push((self.integer()?, axis)),
                _ => return Err(self.expected("an axis")),
            }
            axis += 1;
            if !self.accept(b',') {
                break;
            }
        }
        spatial.sort_unstable();
        let complete = spatial.iter().enumerate().all(|(n, &(given, _))| given == n as i64);
        let (Some(first), Some(second), true) = (lettered[0], lettered[1], complete) else {
            return Err(self.error_here(format!(
                "a convolution's dimensions need {}, {} and the spatial axes from 0, once each",
                letters[0], letters[1]
            )));
        };
        self.expect(b']')?;
        Ok(([first, second], spatial.into_iter().map(|(_, axis)| axis).collect()))
    }

    /// `(%a init: %b), ... applies op across dimensions = [0] : types`, or with a reducer's region.
    pub(super) fn reduce(&mut self, draft: &mut Draft<'a>) -> Parse<()> {
        let mut inits = Vec::new();
        while self.accept(b'(') {
            let operand = self.operand()?;
            draft.operands.push(operand);
            self.expect_word("init")?;
            self.expect(b':')?;
            inits.push(self.operand()?);
            self.expect(b')')?;
            self.accept(b',');
        }
        draft.operands.append(&mut inits);
        let mut applies = None;
        if self.accept_word("applies") {
            applies = Some(match self.lex.token {
                Token::Word(name) | Token::Text(name) => name,
                _ => return Err(self.expected("the op that is applied")),
            });
            self.lex.bump();
        }
        self.expect_word("across")?;
        self.expect_word("dimensions")?;
        self.expect(b'=')?;
        let dimensions = self.ints()?;
        draft.attributes.0.push(("dimensions".into(), dimensions));
        self.rest(draft)?;
        let block = match applies {
            Some(name) => self.reducer_of(draft, name),
            None => {
                self.expect_word("reducer")?;
                let (mut arguments, mut values) = (Vec::new(), Vec::new());
                while self.accept(b'(') {
                    arguments.push(self.block_argument()?);
                    self.expect(b',')?;
                    values.push(self.block_argument()?);
                    self.expect(b')')?;
                }
                arguments.append(&mut values);
                self.region(arguments)?
            }
        };
        draft.regions.push(block);
        Ok(())
    }

    /// The region of `applies op`.
    fn reducer_of(&mut self, draft: &Draft<'a>, name: &str) -> BlockId {
        let block = self.function.add_block();
        let dtype = match draft.operand_types.first() {
            Some(Type::Tensor(ty)) => Some(ty.dtype),
            _ => None,
        };
        let op = Elementwise::from_name(name).filter(|op| op.row().arity == 2);
        let (Some(op), Some(dtype)) = (op, dtype) else {
            if op.is_none() {
                self.report(format!("reduce: cannot apply {name}"), draft.place);
            }
            self.poisoned_blocks.insert(block);
            return block;
        };
        let ty = TensorType::scalar(dtype);
        let arguments = [(); 2].map(|()| self.function.add_argument(block, ty.clone()));
        let place = place_location(draft.place);
        let id = self.function.push_op(block, op, &arguments, vec![ty], &[], place);
        let results = self.function.ops[id].results.clone();
        self.function.blocks[block].yields = results;
        block
    }

    /// `(%arg = %init, ...) : types attributes {...} cond {...} do {...}`.
    pub(super) fn while_loop(&mut self, draft: &mut Draft<'a>) -> Parse<()> {
        let mut names = Vec::new();
        self.expect(b'(')?;
        if !self.accept(b')') {
            loop {
                let Token::Value(name) = self.lex.token else {
                    return Err(self.expected("a loop's argument"));
                };
                names.push((name, self.lex.start));
                self.lex.bump();
                self.expect(b'=')?;
                let operand = self.operand()?;
                draft.operands.push(operand);
                if !self.accept(b',') {
                    break;
                }
            }
            self.expect(b')')?;
        }
        let mut types = Vec::new();
        if self.accept(b':') {
            types = self.type_list()?;
        }
        if types.len() != names.len() {
            let message = format!(
                "while: {} value(s) are carried, but types of {}",
                names.len(),
                types.len()
            );
            return Err(self.error_here(message));
        }
        if self.accept_word("attributes") {
            draft.attributes = self.attribute_dict()?;
        }
        let arguments: Vec<_> = names
            .into_iter()
            .zip(&types)
            .map(|((name, place), ty)| (name, ty.clone(), place))
            .collect();
        self.expect_word("cond")?;
        let condition = self.region(arguments.clone())?;
        self.expect_word("do")?;
        let body = self.region(arguments)?;
        draft.regions = vec![condition, body];
        draft.operand_types = types.clone();
        draft.result_types = types;
        Ok(())
    }
}

/// Nested lists of integers or truth values as one list.
fn flatten(value: Attribute) -> Attribute {
    fn collect(value: &Attribute, out: &mut Vec<i64>) -> bool {
        match value {
            Attribute::Ints(values, _) => out.extend(values),
            Attribute::Bool(value) => out.push((*value).into()),
            Attribute::Int(value, _) => match i64::try_from(*value) {
                Ok(value) => out.push(value),
                Err(_) => return false,
            },
            Attribute::Array(items) => return items.iter().all(|item| collect(item, out)),
            _ => return false,
        }
        true
    }
    let mut out = Vec::new();
    if collect(&value, &mut out) { Attribute::Ints(out, "i64".into()) } else { value }
}
