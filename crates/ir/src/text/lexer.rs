//! Bytes to tokens, one at a time, with line and column.

/// A token. Slices borrow the source; strings and quoted names keep their escapes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A bare word, dots included: `stablehlo.add`, `tensor`, `dim`.
    Word(&'a str),
    /// `%name`, without the sign.
    Value(&'a str),
    /// `@name` or `@"name"`, without sign and quotes.
    Symbol(&'a str),
    /// `#name`, without the sign; also the `#1` of `%0#1`.
    Hash(&'a str),
    /// `!name`, without the sign.
    Bang(&'a str),
    /// `^name`, without the sign.
    Caret(&'a str),
    /// A decimal or hexadecimal integer, with its sign.
    Integer(&'a str),
    /// A number with a decimal point, with its sign.
    Float(&'a str),
    /// A string, without its quotes.
    Text(&'a str),
    /// `->`.
    Arrow,
    /// `{-#`.
    ResourcesOpen,
    /// `#-}`.
    ResourcesClose,
    /// Any other single character.
    Punct(u8),
    /// What cannot be a token, with the reason.
    Bad(&'static str),
    /// The end of the text.
    End,
}

/// A position in the text: byte offset, and line and column from 1 (columns count bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Place {
    pub(super) offset: usize,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Splits a text into tokens. `token` is the current one; `at` is the offset right behind it, from
/// where a caller may scan bytes on its own and then [`Lexer::jump`].
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) token: Token<'a>,
    pub(super) start: Place,
    pub(super) at: usize,
    /// The offset behind the token before the current one.
    pub(super) before: usize,
    /// The line on which that token ends.
    pub(super) before_line: u32,
    line: u32,
    line_start: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, first_line: u32) -> Lexer<'a> {
        let mut lexer = Lexer {
            text,
            bytes: text.as_bytes(),
            token: Token::End,
            start: Place::default(),
            at: 0,
            before: 0,
            before_line: 0,
            line: first_line,
            line_start: 0,
        };
        lexer.bump();
        lexer
    }

    /// The byte at an offset, 0 behind the end.
    pub(super) fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Moves to the next token.
    pub(super) fn bump(&mut self) {
        self.before = self.at;
        self.before_line = self.line;
        self.skip_space();
        let at = self.at;
        self.start =
            Place { offset: at, line: self.line, column: (at - self.line_start + 1) as u32 };
        let Some(&byte) = self.bytes.get(at) else {
            self.token = Token::End;
            return;
        };
        self.token = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                self.run(at + 1, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.'));
                Token::Word(&self.text[at..self.at])
            }
            b'%' => {
                self.run(at + 1, is_name);
                self.named(Token::Value(&self.text[at + 1..self.at]), "a name must follow %")
            }
            b'#' if self.byte(at + 1) == b'-' && self.byte(at + 2) == b'}' => {
                self.at = at + 3;
                Token::ResourcesClose
            }
            b'#' => {
                self.run(at + 1, is_dotted);
                self.named(Token::Hash(&self.text[at + 1..self.at]), "a name must follow #")
            }
            b'!' => {
                self.run(at + 1, is_dotted);
                self.named(Token::Bang(&self.text[at + 1..self.at]), "a name must follow !")
            }
            b'^' => {
                self.run(at + 1, is_name);
                self.named(Token::Caret(&self.text[at + 1..self.at]), "a name must follow ^")
            }
            b'@' if self.byte(at + 1) == b'"' => match self.string(at + 1) {
                Some(inner) => Token::Symbol(inner),
                None => Token::Bad("the string is not closed on its line"),
            },
            b'@' => {
                self.run(at + 1, is_name);
                self.named(Token::Symbol(&self.text[at + 1..self.at]), "a name must follow @")
            }
            b'"' => match self.string(at) {
                Some(inner) => Token::Text(inner),
                None => Token::Bad("the string is not closed on its line"),
            },
            b'0'..=b'9' => self.number(at, at),
            b'-' if self.byte(at + 1) == b'>' => {
                self.at = at + 2;
                Token::Arrow
            }
            b'-' if self.byte(at + 1).is_ascii_digit() => self.number(at, at + 1),
            b'{' if self.byte(at + 1) == b'-' && self.byte(at + 2) == b'#' => {
                self.at = at + 3;
                Token::ResourcesOpen
            }
            _ if byte.is_ascii_graphic() => {
                self.at = at + 1;
                Token::Punct(byte)
            }
            _ => {
                self.at = at + 1;
                while !self.text.is_char_boundary(self.at) {
                    self.at += 1;
                }
                Token::Bad("unexpected character")
            }
        };
    }

    /// Continues behind `to`, which is not before the end of the current token.
    pub(super) fn jump(&mut self, to: usize) {
        for offset in self.at..to {
            if self.bytes[offset] == b'\n' {
                self.newline(offset + 1);
            }
        }
        self.at = to;
        self.bump();
    }

    /// The offset behind the bracket that closes the one at `open`. Brackets of all kinds are
    /// counted alike; strings are skipped, and so is the `>` of an arrow.
    pub(super) fn matching(&self, open: usize) -> Option<usize> {
        let mut depth = 0i64;
        let mut at = open;
        while let Some(&byte) = self.bytes.get(at) {
            match byte {
                b'<' | b'(' | b'[' | b'{' => depth += 1,
                b'>' if at > open && self.bytes[at - 1] == b'-' => {}
                b'>' | b')' | b']' | b'}' => {
                    depth -= 1;
                    if depth <= 0 {
                        return Some(at + 1);
                    }
                }
                b'"' => at = self.string_end(at)? - 1,
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// The offset behind the string that starts with the quote at `open`.
    pub(super) fn string_end(&self, open: usize) -> Option<usize> {
        let mut at = open + 1;
        loop {
            match *self.bytes.get(at)? {
                b'"' => return Some(at + 1),
                b'\\' => at += 2,
                b'\n' => return None,
                _ => at += 1,
            }
        }
    }

    fn string(&mut self, open: usize) -> Option<&'a str> {
        let Some(end) = self.string_end(open) else {
            self.at = self.bytes.len();
            return None;
        };
        self.at = end;
        self.text.get(open + 1..end - 1)
    }

    fn named(&self, token: Token<'a>, reason: &'static str) -> Token<'a> {
        if self.at == self.start.offset + 1 { Token::Bad(reason) } else { token }
    }

    fn run(&mut self, from: usize, accept: impl Fn(u8) -> bool) {
        let rest = &self.bytes[from..];
        self.at = from + rest.iter().position(|&b| !accept(b)).unwrap_or(rest.len());
    }

    /// A number from `start`, its digits from `digits` on.
    fn number(&mut self, start: usize, digits: usize) -> Token<'a> {
        if self.byte(digits) == b'0'
            && self.byte(digits + 1) == b'x'
            && self.byte(digits + 2).is_ascii_hexdigit()
        {
            self.run(digits + 2, |b| b.is_ascii_hexdigit());
            return Token::Integer(&self.text[start..self.at]);
        }
        self.run(digits, |b| b.is_ascii_digit());
        if self.byte(self.at) != b'.' {
            return Token::Integer(&self.text[start..self.at]);
        }
        self.run(self.at + 1, |b| b.is_ascii_digit());
        if matches!(self.byte(self.at), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(self.at + 1), b'+' | b'-'));
            if self.byte(self.at + 1 + sign).is_ascii_digit() {
                self.run(self.at + 1 + sign, |b| b.is_ascii_digit());
            }
        }
        Token::Float(&self.text[start..self.at])
    }

    fn newline(&mut self, line_start: usize) {
        self.line += 1;
        self.line_start = line_start;
    }

    fn skip_space(&mut self) {
        loop {
            match self.byte(self.at) {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\n' => {
                    self.at += 1;
                    self.newline(self.at);
                }
                b'/' if self.byte(self.at + 1) == b'/' => self.run(self.at, |b| b != b'\n'),
                _ => return,
            }
        }
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | b'-')
}

fn is_dotted(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

impl Token<'_> {
    /// The token as an error message names it.
    pub(super) fn describe(self) -> String {
        match self {
            Token::Word(word) => format!("`{}`", shorten(word)),
            Token::Value(name) => format!("`%{}`", shorten(name)),
            Token::Symbol(name) => format!("`@{}`", shorten(name)),
            Token::Hash(name) => format!("`#{}`", shorten(name)),
            Token::Bang(name) => format!("`!{}`", shorten(name)),
            Token::Caret(name) => format!("`^{}`", shorten(name)),
            Token::Integer(text) | Token::Float(text) => format!("`{}`", shorten(text)),
            Token::Text(text) => format!("\"{}\"", shorten(text)),
            Token::Arrow => "`->`".into(),
            Token::ResourcesOpen => "`{-#`".into(),
            Token::ResourcesClose => "`#-}`".into(),
            Token::Punct(byte) => format!("`{}`", byte as char),
            Token::Bad(reason) => reason.into(),
            Token::End => "the end of the text".into(),
        }
    }
}

/// At most 60 characters of a text.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_string(),
    }
}

/// A string's content with its escapes resolved: `\\`, `\"`, `\n`, `\t` and two hexadecimal digits.
/// Bytes that are not UTF-8 are replaced.
pub(super) fn unescape(raw: &str) -> String {
    if !raw.contains('\\') {
        return raw.to_string();
    }
    let bytes = raw.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        at += 1;
        if byte != b'\\' || at == bytes.len() {
            out.push(byte);
            continue;
        }
        let code = raw.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (bytes[at], code) {
            (b'n', _) => out.push(b'\n'),
            (b't', _) => out.push(b'\t'),
            (_, Some(code)) => {
                out.push(code);
                at += 1;
            }
            (other, None) => out.push(other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A string as the text spells it, with quotes.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' => out.push_str("\\22"),
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(byte as char),
            other => out.push_str(&format!("\\{other:02X}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text, 1);
        let mut out = Vec::new();
        while lexer.token != Token::End {
            out.push(lexer.token);
            lexer.bump();
        }
        out
    }

    #[test]
    fn tokens_of_ops() {
        assert_eq!(
            tokens("%0:2 = stablehlo.add %a-b#1, @f @\"x y\" // end\n -1 -> -2.5E+3 0x1F"),
            [
                Token::Value("0"),
                Token::Punct(b':'),
                Token::Integer("2"),
                Token::Punct(b'='),
                Token::Word("stablehlo.add"),
                Token::Value("a-b"),
                Token::Hash("1"),
                Token::Punct(b','),
                Token::Symbol("f"),
                Token::Symbol("x y"),
                Token::Integer("-1"),
                Token::Arrow,
                Token::Float("-2.5E+3"),
                Token::Integer("0x1F"),
            ]
        );
    }

    #[test]
    fn places_and_brackets() {
        let mut lexer = Lexer::new("a\n  <(\">\" -> \n)> b", 1);
        lexer.bump();
        assert_eq!((lexer.start.line, lexer.start.column), (2, 3));
        let end = lexer.matching(lexer.start.offset).expect("closed");
        lexer.jump(end);
        assert_eq!(lexer.token, Token::Word("b"));
        assert_eq!((lexer.start.line, lexer.start.column), (3, 4));
    }

    #[test]
    fn escapes() {
        let text = "a\"b\\c\n\u{e9}";
        let quoted = quote(text);
        assert_eq!(unescape(&quoted[1..quoted.len() - 1]), text);
        assert_eq!(tokens("\"open"), [Token::Bad("the string is not closed on its line")]);
    }
}
