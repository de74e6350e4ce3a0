//! Where go-yaml v3 takes comments to belong.
//!
//! Behind a token on its line, a comment is about that token. Lines of comments are about what comes next, unless they
//! stand right below something and an empty line follows, or they stand further to the left than what they follow.

use granit_parser::{Options, ScalarStyle, Scanner, StrInput, TokenType};

/// What a comment is to the token that takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Head,
    Line,
    Foot,
}

/// One or more lines of comments.
#[derive(Debug, Clone)]
pub(super) struct Comment {
    pub(super) position: Position,
    pub(super) text: String,
    /// The first token that starts here or later takes it.
    pub(super) from: usize,
    /// Where it begins and ends, and where the blanks before it began.
    start: usize,
    column: usize,
    end: usize,
    blanks: usize,
}

/// A token with its place in bytes.
#[derive(Debug, Clone)]
pub(super) struct Token<'s> {
    pub(super) kind: TokenType<'s>,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// All tokens of a text, ends of blocks moved before the comments that do not belong to them, and all comments.
pub(super) fn scan(source: &str) -> Option<(Vec<Token<'_>>, Vec<Comment>)> {
    let mut gaps = Gaps {
        source,
        comments: Vec::new(),
        indents: Vec::new(),
        flow: 0,
        block_mark: None,
        is_last: false,
        is_over: false,
    };
    let mut tokens: Vec<Token<'_>> = Vec::new();
    // The last two that stand in the text.
    let mut real: Vec<(usize, usize)> = Vec::new();
    let (mut gap_is_read, mut last_end) = (false, 0);
    let mut has_content = false;
    let mut options = Options::default();
    options.set_emit_comments(false);
    for (index, token) in Scanner::with_options(StrInput::new(source), options).enumerate() {
        let (span, kind) = token.ok()?.into_parts();
        let range = span.byte_range()?;
        let mut token = placed(source, Token { kind, start: range.start, end: range.end }, last_end);
        if index > 0 && !gap_is_read {
            gaps.read(&tokens, &real)?;
            gap_is_read = true;
        }
        match &token.kind {
            TokenType::BlockEnd => token.start = gaps.end_block(),
            TokenType::BlockSequenceStart | TokenType::BlockMappingStart => {
                gaps.indents.push(column(source, token.start));
            }
            TokenType::FlowSequenceStart | TokenType::FlowMappingStart => gaps.flow += 1,
            TokenType::FlowSequenceEnd | TokenType::FlowMappingEnd => gaps.flow = gaps.flow.saturating_sub(1),
            _ => {}
        }
        let is_virtual =
            matches!(token.kind, TokenType::BlockEnd | TokenType::BlockSequenceStart | TokenType::BlockMappingStart)
                || matches!(token.kind, TokenType::Key) && !source.get(token.start..)?.starts_with('?');
        if !is_virtual {
            real.push((tokens.len(), token.start));
            last_end = token.end;
            gap_is_read = false;
        }
        let is_mark = matches!(token.kind, TokenType::DocumentStart | TokenType::DocumentEnd);
        let is_before = matches!(token.kind, TokenType::StreamStart | TokenType::VersionDirective(..));
        has_content |= !is_virtual && !is_before && !is_mark;
        tokens.push(token);
        if is_mark && has_content {
            // What is wrong behind the first document does not matter.
            break;
        }
    }
    Some((tokens, gaps.comments))
}

/// The scanner gives indicators no length, and places some behind where they stand; `after` is where the last token ended.
fn placed<'s>(source: &str, mut token: Token<'s>, after: usize) -> Token<'s> {
    let here = source.as_bytes().get(token.start);
    match token.kind {
        TokenType::Value if here == Some(&b':') => token.end = token.start + 1,
        TokenType::Key if here == Some(&b'?') && token.end == token.start => token.end += 1,
        TokenType::BlockSequenceStart => token.start = next_sign(source, after),
        TokenType::BlockEntry => {
            token.start = next_sign(source, after);
            token.end = token.start + 1;
        }
        TokenType::Scalar(ScalarStyle::Literal | ScalarStyle::Folded, _) => token.start = next_sign(source, after),
        _ => {}
    }
    token
}

/// What comes next that is neither blank nor a comment.
fn next_sign(source: &str, from: usize) -> usize {
    let mut rest = source.get(from..).unwrap_or_default();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        match rest.strip_prefix('#') {
            Some(comment) => rest = comment.find('\n').and_then(|end| comment.get(end..)).unwrap_or_default(),
            None => return source.len() - rest.len(),
        }
    }
}

/// Characters before `at` on its line.
fn column(source: &str, at: usize) -> usize {
    let before = source.get(..at).unwrap_or_default();
    before.rsplit('\n').next().unwrap_or_default().chars().count()
}

/// Lines before the one of `at`.
fn line(source: &str, at: usize) -> usize {
    source.get(..at).unwrap_or_default().matches('\n').count()
}

struct Gaps<'s> {
    source: &'s str,
    comments: Vec<Comment>,
    /// Columns of the blocks that are open.
    indents: Vec<usize>,
    flow: usize,
    /// Where the blocks end that end in this gap.
    block_mark: Option<usize>,
    /// Nothing but comments follows.
    is_last: bool,
    /// The end of the text has been met.
    is_over: bool,
}

/// The lines of comments that are being gathered.
#[derive(Default)]
struct Gathered {
    text: String,
    start: usize,
    line: usize,
    /// Counted from 1.
    column: usize,
}

impl Gaps<'_> {
    /// Reads the comments behind the last token.
    fn read(&mut self, tokens: &[Token<'_>], real: &[(usize, usize)]) -> Option<()> {
        let (index, start) = *real.last()?;
        let before = real.iter().rev().nth(1).map_or(start, |(_, start)| *start);
        let token = tokens.get(index)?;
        let bytes = self.source.as_bytes();
        let is_remark = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
        self.is_last = self.source.get(token.end..)?.lines().all(is_remark);
        // A block text ends behind its last break.
        let content = self.source.get(..token.end)?.trim_end_matches([' ', '\t', '\n', '\r']).len();
        let is_block = matches!(token.kind, TokenType::Scalar(ScalarStyle::Literal | ScalarStyle::Folded, _));
        let mut at = token.end;
        let mut newlines = 0;
        if is_block {
            let head = self.source.get(token.start..)?.lines().next()?;
            if let Some(hash) = head.find(" #") {
                self.line_comment(token.start, head.get(hash + 1..)?.to_owned());
            }
            newlines = self.source.get(content..at)?.matches('\n').count();
        }
        let blanks_end = |from: usize| {
            from + self.source.get(from..).map_or(0, |rest| rest.len() - rest.trim_start_matches([' ', '\t']).len())
        };
        let next = blanks_end(at);
        let may_have_line =
            !matches!(token.kind, TokenType::BlockEntry | TokenType::StreamStart | TokenType::DocumentStart);
        if bytes.get(next) == Some(&b'#') && newlines == 0 && may_have_line {
            let text = self.source.get(next..)?.lines().next()?.to_owned();
            let to_former = matches!(token.kind, TokenType::Value) && self.flow == 0
                || matches!(token.kind, TokenType::FlowEntry) && self.flow > 0;
            at = next + text.len();
            self.line_comment(if to_former { before } else { start }, text);
        }
        let is_plain = matches!(token.kind, TokenType::Scalar(ScalarStyle::Plain, _));
        let ends_here = is_plain && at == token.end;
        let end = at;
        loop {
            match bytes.get(at) {
                Some(b' ' | b'\t' | b'\r') => at += 1,
                Some(b'\n') => {
                    newlines += 1;
                    at += 1;
                }
                _ => break,
            }
        }
        // Plain text is only known to end where something else begins.
        let blanks = if ends_here { at } else { end };
        self.block_mark = blanks.checked_sub(1);
        if bytes.get(at) != Some(&b'#') {
            return Some(());
        }
        let owner = if matches!(token.kind, TokenType::FlowEntry) { before } else { start };
        self.lines(at, newlines, blanks, owner, matches!(token.kind, TokenType::Value));
        Some(())
    }

    fn line_comment(&mut self, from: usize, text: String) {
        self.comments.push(Comment { position: Position::Line, text, from, start: 0, column: 0, end: 0, blanks: 0 });
    }

    /// Reads lines of comments from `at` on, `newlines` below what came before; `blanks` is where that ended, `owner`
    /// where it began.
    fn lines(&mut self, at: usize, newlines: usize, blanks: usize, owner: usize, is_value: bool) {
        let indent = self.indents.last().copied().unwrap_or(0);
        let (mut blanks, mut from) = (blanks, owner);
        let mut line_number = line(self.source, at);
        let mut column = column(self.source, at);
        let foot_line = (line(self.source, blanks) > 0)
            .then(|| (line_number + 1 + usize::from(newlines == 0 && column > 1)).saturating_sub(newlines));
        let mut first_empty = newlines <= 1;
        let mut recent_empty = false;
        let mut gathered = Gathered::default();
        let mut at = at;
        loop {
            let byte = self.source.as_bytes().get(at).copied();
            column += 1;
            let closes = self.flow > 0 && matches!(byte, Some(b']' | b'}'));
            let is_left = gathered.column < indent + 1;
            match byte {
                Some(b' ' | b'\t' | b'\r') => at += 1,
                None | Some(b'\n' | b']' | b'}') if closes || matches!(byte, None | Some(b'\n')) => {
                    if closes || !recent_empty {
                        let below = foot_line == Some(gathered.line) && !is_value;
                        if closes || first_empty && (below || is_left) {
                            if !gathered.text.is_empty() {
                                let begin = if is_left { gathered.start } else { from };
                                self.push(Position::Foot, begin, at, blanks, &mut gathered);
                                (blanks, from) = (at, at);
                            }
                        } else if !gathered.text.is_empty() && byte.is_some() {
                            gathered.text.push('\n');
                        }
                    }
                    if byte != Some(b'\n') {
                        break;
                    }
                    first_empty = false;
                    recent_empty = true;
                    column = 0;
                    line_number += 1;
                    at += 1;
                }
                _ => {
                    if !gathered.text.is_empty() && column < indent + 1 && column != gathered.column {
                        self.push(Position::Foot, from, at, blanks, &mut gathered);
                        (blanks, from) = (at, at);
                    }
                    if byte != Some(b'#') {
                        break;
                    }
                    let text = self.source.get(at..).and_then(|rest| rest.lines().next()).unwrap_or_default();
                    if gathered.text.is_empty() {
                        (gathered.start, gathered.line, gathered.column) = (at, line_number, column);
                    } else {
                        gathered.text.push('\n');
                    }
                    gathered.text.push_str(text);
                    recent_empty = false;
                    at += text.len();
                    line_number = line(self.source, at);
                    // The break of this line is no empty line.
                    at += usize::from(self.source.as_bytes().get(at) == Some(&b'\n'));
                    column = 0;
                }
            }
        }
        if !gathered.text.is_empty() {
            let start = gathered.start;
            self.push(Position::Head, start, at.saturating_sub(1), blanks, &mut gathered);
        }
    }

    fn push(&mut self, position: Position, from: usize, end: usize, blanks: usize, gathered: &mut Gathered) {
        let text = std::mem::take(&mut gathered.text);
        let (start, column) = (gathered.start, gathered.column);
        self.comments.push(Comment { position, text, from, start, column, end, blanks });
    }

    /// Ends the innermost block: before the comments that stand where it stands.
    fn end_block(&mut self) -> usize {
        let indent = self.indents.pop().unwrap_or(0);
        // The end of the text ends what the indent of its last line leaves open, behind all comments.
        let end = self.source.len();
        if self.is_last && indent <= column(self.source, end) && !std::mem::replace(&mut self.is_over, true) {
            self.block_mark = end.checked_sub(1);
        }
        let mut mark = self.block_mark.unwrap_or(0);
        let mut stop = mark;
        for comment in self.comments.iter().rev() {
            if comment.end < stop || comment.position == Position::Line {
                break;
            }
            if comment.column == indent + 1 {
                mark = comment.start;
            }
            stop = comment.blanks;
        }
        self.block_mark = Some(mark);
        mark
    }
}
