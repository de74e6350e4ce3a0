//! The grammar of `${…}`: what `github.com/fluxcd/pkg/envsubst` v1.7.1 reads, which is `drone/envsubst`'s grammar.

use std::sync::LazyLock;

use regex::Regex;

use super::expression::{Expression, Operation, Part};
use super::{TemplateError, TemplateErrorKind};

/// Expressions inside of expressions; deeper is an attack, not a manifest.
const DEEPEST: usize = 32;

/// A text and how far it is read.
pub(super) struct Reader<'t> {
    source: &'t str,
    at: usize,
    depth: usize,
    /// Up to here lines are counted.
    counted: usize,
    line: usize,
    line_start: usize,
}

impl<'t> Reader<'t> {
    pub(super) fn new(source: &'t str) -> Self {
        Self { source, at: 0, depth: 0, counted: 0, line: 1, line_start: 0 }
    }

    fn rest(&self) -> &'t str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes at most `most` characters while they are accepted.
    fn take(&mut self, most: usize, accept: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.chars().take(most).take_while(|character| accept(*character)).map(char::len_utf8).sum();
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn place(&mut self) -> (usize, usize) {
        let passed = self.source.get(self.counted..self.at).unwrap_or_default();
        for (at, _) in passed.match_indices('\n') {
            self.line += 1;
            self.line_start = self.counted + at + 1;
        }
        self.counted = self.at;
        (self.line, 1 + self.source.get(self.line_start..self.at).map_or(0, |text| text.chars().count()))
    }

    /// Reads all of it.
    pub(super) fn template(&mut self) -> Result<Vec<Part>, TemplateError> {
        let mut parts = Vec::new();
        let mut text = String::new();
        while let Some(dollar) = self.rest().find('$') {
            text.push_str(self.rest().get(..dollar).unwrap_or_default());
            self.at += dollar;
            if self.rest().starts_with("${") {
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(Part::Expression(self.expression()?));
            } else {
                text.push('$');
                self.at += if self.rest().starts_with("$$") { 2 } else { 1 };
            }
        }
        text.push_str(self.rest());
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(parts)
    }

    /// Reads one `${…}`, where it stands.
    fn expression(&mut self) -> Result<Expression, TemplateError> {
        let (start, (line, column)) = (self.at, self.place());
        let source = self.source;
        let failed = |kind: TemplateErrorKind| {
            let shown = source.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
            TemplateError { kind, expression: shown.chars().take(40).collect(), line, column }
        };
        if self.depth >= DEEPEST {
            return Err(failed(TemplateErrorKind::TooDeep));
        }
        self.depth += 1;
        self.at += 2;
        let read = self.body();
        self.depth -= 1;
        match read {
            Ok((variable, operation, arguments)) => Ok(Expression { variable, operation, arguments, line, column }),
            Err(Broken::Here(kind)) => Err(failed(kind)),
            Err(Broken::Inside(error)) => Err(error),
        }
    }

    fn body(&mut self) -> Result<(String, Operation, Vec<Part>), Broken> {
        if self.peek() == Some('#') {
            self.at += 1;
            let name = self.name()?;
            self.close()?;
            return Ok((name, Operation::Length, Vec::new()));
        }
        let name = self.name()?;
        let (operation, arguments) = match self.peek() {
            Some(':') => self.default_or_substring()?,
            Some('=') => {
                self.at += 1;
                (Operation::Default, self.default_value()?)
            }
            Some(',' | '^') => {
                let operation = match self.take(2, |character| matches!(character, ',' | '^')) {
                    "," => Operation::LowerFirst,
                    ",," => Operation::Lower,
                    "^" => Operation::UpperFirst,
                    "^^" => Operation::Upper,
                    _ => Operation::Value,
                };
                (operation, Vec::new())
            }
            Some('/') => self.replacement()?,
            Some(sign @ ('#' | '%')) => {
                let operation = match self.take(2, |character| character == sign) {
                    "#" => Operation::TrimShortestPrefix,
                    "##" => Operation::TrimLongestPrefix,
                    "%" => Operation::TrimShortestSuffix,
                    _ => Operation::TrimLongestSuffix,
                };
                (operation, vec![self.argument(&['}'], false)?])
            }
            Some('}') => (Operation::Value, Vec::new()),
            Some(other) => return Err(Broken::Here(TemplateErrorKind::UnknownOperation(other))),
            None => return Err(Broken::Here(TemplateErrorKind::NoClosingBrace)),
        };
        self.close()?;
        Ok((name, operation, arguments))
    }

    fn name(&mut self) -> Result<String, Broken> {
        match self.take(usize::MAX, is_of_a_name) {
            "" => Err(Broken::Here(TemplateErrorKind::NoName)),
            name => Ok(name.to_owned()),
        }
    }

    fn close(&mut self) -> Result<(), Broken> {
        match self.peek() {
            Some('}') => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(Broken::Here(TemplateErrorKind::Leftover)),
            None => Err(Broken::Here(TemplateErrorKind::NoClosingBrace)),
        }
    }

    fn default_or_substring(&mut self) -> Result<(Operation, Vec<Part>), Broken> {
        self.at += 1;
        match self.peek() {
            Some('=' | '-' | '?' | '+') => {
                self.at += 1;
                return Ok((Operation::Default, self.default_value()?));
            }
            // The Go reader steps back by the width of this character and loses its place.
            Some(character) if !character.is_ascii() => return Err(Broken::Here(TemplateErrorKind::NoOffset)),
            _ => {}
        }
        let mut arguments = vec![self.argument(&[':', '}'], false)?];
        if !self.take(usize::MAX, |character| character == ':').is_empty() {
            arguments.push(self.argument(&['}'], false)?);
        }
        Ok((Operation::Substring, arguments))
    }

    fn default_value(&mut self) -> Result<Vec<Part>, Broken> {
        let mut arguments = Vec::new();
        while self.peek() != Some('}') {
            arguments.push(self.argument(&['}'], false)?);
        }
        Ok(arguments)
    }

    fn replacement(&mut self) -> Result<(Operation, Vec<Part>), Broken> {
        self.at += 1;
        let operation = match self.take(1, |character| matches!(character, '/' | '#' | '%')) {
            "/" => Operation::ReplaceAll,
            "#" => Operation::ReplacePrefix,
            "%" => Operation::ReplaceSuffix,
            _ => Operation::ReplaceFirst,
        };
        let mut arguments = vec![self.argument(&['/'], true)?];
        if self.take(usize::MAX, |character| character == '/').is_empty() {
            return Err(Broken::Here(TemplateErrorKind::NoReplacement));
        }
        if self.peek() != Some('}') {
            arguments.push(self.argument(&['}'], true)?);
        }
        Ok((operation, arguments))
    }

    /// One expression, or text up to the next expression or one of `ends`; never empty. Where `escapes` count, `\/`, `\\`
    /// and `$$` stand for their second character.
    fn argument(&mut self, ends: &[char], escapes: bool) -> Result<Part, Broken> {
        if self.rest().starts_with("${") {
            return self.expression().map(Part::Expression).map_err(Broken::Inside);
        }
        let mut text = String::new();
        while let Some(character) = self.peek() {
            let rest = self.rest();
            if rest.starts_with("${") {
                break;
            }
            if escapes && ["$$", "\\/", "\\\\"].iter().any(|pair| rest.starts_with(pair)) {
                text.extend(rest.chars().nth(1));
                self.at += 2;
            } else if ends.contains(&character) {
                break;
            } else {
                text.push(character);
                self.at += character.len_utf8();
            }
        }
        if text.is_empty() { Err(Broken::Here(TemplateErrorKind::EmptyArgument)) } else { Ok(Part::Text(text)) }
    }
}

/// Why an expression cannot be read.
enum Broken {
    /// It is this expression.
    Here(TemplateErrorKind),
    /// It is one inside of it.
    Inside(TemplateError),
}

/// Letters and decimal digits of every script, as in Go.
fn is_of_a_name(character: char) -> bool {
    static OTHER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{L}\p{Nd}]$").ok());
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || character == '_';
    }
    OTHER.as_ref().is_some_and(|other| other.is_match(character.encode_utf8(&mut [0; 4])))
}
