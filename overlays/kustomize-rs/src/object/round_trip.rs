//! What changes when kustomize writes an object out and reads it again, as it does before it prints it.
//!
//! Folded block scalars: go-yaml v3 keeps the style, and writes one line break too many where a line that begins with a
//! blank follows, and before several breaks at the end. And values that are left out, and times with a colon: in
//! brackets it gives them quotes.
//!
//! And a block that begins with a tab: its indentation is written without a number, and the reader takes the tab for a
//! part of it. Nothing can be made of such an object.

use yaml::{Node, Style, Value, may_be_block};

use crate::error::BuildError;

/// Rewrites what is another value when it is read again, and refuses what cannot be read again.
pub(crate) fn write_and_read(node: &mut Node) -> Result<(), BuildError> {
    // Looks before anything is changed: what is shared stays shared.
    if is_read_as_other(node, false) { rewrite(node, "", false) } else { Ok(()) }
}

fn is_read_as_other(node: &Node, in_flow: bool) -> bool {
    let in_flow = in_flow || node.style() == Style::Flow;
    match &node.value {
        Value::Sequence(items) => items.iter().any(|item| is_read_as_other(item, in_flow)),
        Value::Mapping(mapping) => mapping.iter().any(|entry| is_read_as_other(&entry.value, in_flow)),
        Value::Null => in_flow && node.is_left_out(),
        // There are no blocks inside of brackets.
        _ if in_flow => node.is_time_of_day(),
        _ => node.style() == Style::Folded || node.begins_with_a_tab(),
    }
}

fn rewrite(node: &mut Node, key: &str, in_flow: bool) -> Result<(), BuildError> {
    let in_flow = in_flow || node.style() == Style::Flow;
    let is_folded = !in_flow && node.style() == Style::Folded;
    if in_flow && node.is_left_out() {
        *node = Node::from("");
    }
    if in_flow && node.is_time_of_day() {
        node.become_as_written();
    }
    let begins_with_a_tab = !in_flow && node.begins_with_a_tab();
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().try_for_each(|item| rewrite(item, key, in_flow)),
        Value::Mapping(mapping) => {
            mapping.iter_mut().try_for_each(|entry| rewrite(&mut entry.value, &entry.key, in_flow))
        }
        Value::String(text) if begins_with_a_tab && may_be_block(text) => {
            let message =
                format!("the text of `{key}` begins with a tab, which kustomize cannot read again as a block");
            let mut error =
                BuildError::transform(message).hint("begin it with something else, or put it in double quotes");
            (error.line, error.column) = (node.span.line(), node.span.column());
            Err(error)
        }
        Value::String(text) if is_folded => {
            if let Some(rewritten) = rewritten(text) {
                *text = rewritten.into();
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns the text after that, or `None` if it stays as it is.
fn rewritten(text: &str) -> Option<String> {
    if !may_be_block(text) {
        return None;
    }
    let result = read(&write(text), text);
    (result != text).then_some(result)
}

/// The lines as the writer puts them, without indentation.
fn write(text: &str) -> String {
    let first = text.trim_start_matches('\n').chars().next();
    let doubles = first.is_some_and(|first| !is_blank(first));
    let mut out = String::with_capacity(text.len() + 16);
    let (mut in_breaks, mut blank_line) = (true, true);
    for character in text.chars() {
        if character == '\n' {
            if !in_breaks && !blank_line && doubles {
                out.push('\n');
            }
            in_breaks = true;
        } else {
            if in_breaks {
                blank_line = is_blank(character);
            }
            in_breaks = false;
        }
        out.push(character);
    }
    out
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t')
}

/// Reads folded lines, with the chomping that the writer gave `original`.
fn read(written: &str, original: &str) -> String {
    let keeps = original == "\n" || original.ends_with("\n\n");
    let strips = !original.ends_with('\n');
    let mut out = String::with_capacity(written.len());
    let mut leading_break = false;
    let mut breaks = 0;
    let mut after_blank = false;
    let mut lines = written.split('\n').peekable();
    while let Some(line) = lines.next() {
        let ends = lines.peek().is_some();
        if line.is_empty() {
            breaks += usize::from(ends);
            continue;
        }
        let before_blank = line.starts_with(is_blank);
        if leading_break {
            if after_blank || before_blank {
                out.push('\n');
            } else if breaks == 0 {
                out.push(' ');
            }
        }
        out.extend(std::iter::repeat_n('\n', breaks));
        breaks = 0;
        after_blank = before_blank;
        out.push_str(line);
        leading_break = ends;
    }
    if !strips && leading_break {
        out.push('\n');
    }
    if keeps {
        out.extend(std::iter::repeat_n('\n', breaks));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::rewritten;

    #[test]
    fn folded_text_grows_where_go_yaml_writes_too_many_breaks() {
        let check =
            |text: &str, expect: &str| assert_eq!(rewritten(text).as_deref().unwrap_or(text), expect, "{text:?}");
        check("a b\nc\n", "a b\nc\n");
        check("a b", "a b");
        check("a\n\n", "a\n\n\n");
        check("c\n  d\n", "c\n\n  d\n");
        check("a\n\nb\n", "a\n\nb\n");
        check("a\n\tb\n\n", "a\n\n\tb\n\n");
        check("a\tb\n", "a\tb\n");
    }
}
