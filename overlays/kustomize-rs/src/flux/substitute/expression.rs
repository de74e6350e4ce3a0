//! What a template is made of, and the operations that there are.

/// A stretch of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text that stays.
    Text(String),
    /// Something to expand.
    Expression(Expression),
}

/// One `${…}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// Name of the variable: letters, digits and `_`.
    pub variable: String,
    /// What is done with its value.
    pub operation: Operation,
    /// What the operation works with; see there.
    pub arguments: Vec<Part>,
    /// Line of the `$`, from 1.
    pub line: usize,
    /// Column of the `$` in characters, from 1.
    pub column: usize,
}

/// What an [`Expression`] does with the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `${name}`: nothing.
    Value,
    /// `${name:=…}`, `${name=…}`, `${name:-…}`, `${name:?…}` and `${name:+…}`, which all mean the same: the arguments, one
    /// after the other, where the value is empty.
    Default,
    /// `${#name}`: the number of its bytes.
    Length,
    /// `${name,}`: the first character in lower case.
    LowerFirst,
    /// `${name,,}`: all characters in lower case.
    Lower,
    /// `${name^}`: the first character in upper case.
    UpperFirst,
    /// `${name^^}`: all characters in upper case.
    Upper,
    /// `${name:offset}` and `${name:offset:length}`, in bytes; what is negative counts from the end.
    Substring,
    /// `${name#pattern}`: without the shortest beginning that matches.
    TrimShortestPrefix,
    /// `${name##pattern}`: without the longest one.
    TrimLongestPrefix,
    /// `${name%pattern}`: without the shortest end that matches.
    TrimShortestSuffix,
    /// `${name%%pattern}`: without the longest one.
    TrimLongestSuffix,
    /// `${name/text/new}`: the first occurrence replaced; without a `new` it goes away.
    ReplaceFirst,
    /// `${name//text/new}`: all occurrences.
    ReplaceAll,
    /// `${name/#text/new}`: at the beginning only; without a `new` nothing happens.
    ReplacePrefix,
    /// `${name/%text/new}`: at the end only; without a `new` nothing happens.
    ReplaceSuffix,
}
