//! The grammar of `${…}`.

use super::VariableError;

/// A stretch of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Reference(Reference),
}

/// What is done with the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// The value, or the arguments when it is empty.
    Default,
    Length,
    Lower,
    Upper,
    LowerFirst,
    UpperFirst,
}

/// One `${…}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub name: String,
    pub line: usize,
    pub function: Function,
    pub arguments: Vec<Part>,
}

impl Reference {
    pub fn has_default(&self) -> bool {
        !self.arguments.is_empty()
    }

    /// The default as text; a variable inside it stays as `${NAME}`.
    pub fn default_text(&self) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Reference(reference) => format!("${{{}}}", reference.name),
        };
        self.arguments.iter().map(part).collect()
    }
}

/// Rewrites `${ NAME }`, `${ NAME}` and `${NAME }` to `${NAME}`, as clusterctl does first of all.
pub(super) fn drop_white_space(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("${") {
        let (before, reference) = rest.split_at(at);
        text.push_str(before);
        let inside = reference.get(2..).unwrap_or_default();
        let spaced = inside.find('}').and_then(|end| inside.get(..end)).filter(|body| {
            let name = body.trim();
            name.len() < body.len()
                && !name.is_empty()
                && name.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '_' | '$'))
        });
        match spaced {
            Some(body) => {
                text.push_str("${");
                text.push_str(body.trim());
                text.push('}');
                rest = inside.get(body.len() + 1..).unwrap_or_default();
            }
            None => {
                text.push_str("${");
                rest = inside;
            }
        }
    }
    text.push_str(rest);
    text
}

pub(super) fn parse(source: &str) -> Result<Vec<Part>, VariableError> {
    let mut parser = Parser { source, position: 0, line: 1, line_start: 0, counted: 0, depth: 0 };
    let mut parts = Vec::new();
    let mut text = String::new();
    while let Some(rest) = parser.rest() {
        let Some(dollar) = rest.find('$') else {
            text.push_str(rest);
            break;
        };
        text.push_str(rest.get(..dollar).unwrap_or_default());
        parser.position += dollar;
        let rest = parser.rest().unwrap_or_default();
        if rest.starts_with("${") {
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(Part::Reference(parser.reference()?));
        } else {
            text.push('$');
            parser.position += if rest.starts_with("$$") { 2 } else { 1 };
        }
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

/// Defaults may hold variables whose defaults hold variables; deeper is an attack, not a manifest.
const MAXIMUM_DEPTH: usize = 16;

struct Parser<'a> {
    source: &'a str,
    position: usize,
    line: usize,
    line_start: usize,
    counted: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> Option<&'a str> {
        self.source.get(self.position..).filter(|rest| !rest.is_empty())
    }

    fn peek(&self) -> Option<char> {
        self.rest().and_then(|rest| rest.chars().next())
    }

    /// Line and column of the current position.
    fn place(&mut self) -> (usize, usize) {
        let passed = self.source.get(self.counted..self.position).unwrap_or_default();
        for (at, _) in passed.match_indices('\n') {
            self.line += 1;
            self.line_start = self.counted + at + 1;
        }
        self.counted = self.position.max(self.counted);
        let column = self.source.get(self.line_start..self.position).map_or(0, |text| text.chars().count());
        (self.line, column + 1)
    }

    fn take(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest().unwrap_or_default();
        let end = rest.find(|character| !accept(character)).unwrap_or(rest.len());
        self.position += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Reads one `${…}` at the current position.
    fn reference(&mut self) -> Result<Reference, VariableError> {
        let (line, column) = self.place();
        let start = self.position;
        let malformed = |parser: &Self, message: &str| {
            let shown: String = parser.source.get(start..).unwrap_or_default().chars().take(40).collect();
            let shown = shown.lines().next().unwrap_or_default().to_owned();
            VariableError::Malformed { line, column, message: format!("{message} in {shown:?}") }
        };
        self.depth += 1;
        if self.depth > MAXIMUM_DEPTH {
            return Err(malformed(self, "variables are nested too deeply"));
        }
        self.position += 2;
        let length = self.peek() == Some('#');
        if length {
            self.position += 1;
        }
        let name = self.take(|character| character.is_alphanumeric() || character == '_').to_owned();
        if name.is_empty() {
            return Err(malformed(self, "no variable name"));
        }
        let mut function = if length { Function::Length } else { Function::Default };
        let mut arguments = Vec::new();
        if !length {
            match self.peek() {
                Some('}') => {}
                Some(first @ (':' | '=')) => {
                    let rest = self.rest().unwrap_or_default();
                    let is_default = first == '=' || [":=", ":-", ":?", ":+"].iter().any(|sign| rest.starts_with(sign));
                    if !is_default {
                        return Err(malformed(self, "substrings of variables are not supported"));
                    }
                    self.position += if first == '=' { 1 } else { 2 };
                    arguments = self.arguments(&malformed)?;
                }
                Some(',' | '^') => {
                    let sign = self.take(|character| character == ',' || character == '^');
                    function = match sign {
                        "," => Function::LowerFirst,
                        ",," => Function::Lower,
                        "^" => Function::UpperFirst,
                        "^^" => Function::Upper,
                        _ => return Err(malformed(self, "unknown function")),
                    };
                }
                Some('/' | '#' | '%') => {
                    return Err(malformed(self, "replacing and trimming of variables are not supported"));
                }
                _ => return Err(malformed(self, "no closing brace")),
            }
        }
        if self.peek() != Some('}') {
            return Err(malformed(self, "no closing brace"));
        }
        self.position += 1;
        self.depth -= 1;
        Ok(Reference { name, line, function, arguments })
    }

    fn arguments(&mut self, malformed: &dyn Fn(&Self, &str) -> VariableError) -> Result<Vec<Part>, VariableError> {
        let mut arguments = Vec::new();
        loop {
            let rest = self.rest().unwrap_or_default();
            if rest.starts_with('}') {
                return Ok(arguments);
            }
            if rest.starts_with("${") {
                arguments.push(Part::Reference(self.reference()?));
                continue;
            }
            let end = [rest.find('}'), rest.find("${")].into_iter().flatten().min();
            let Some(text) = end.and_then(|end| rest.get(..end)) else {
                return Err(malformed(self, "no closing brace"));
            };
            self.position += text.len();
            arguments.push(Part::Text(text.to_owned()));
        }
    }
}
