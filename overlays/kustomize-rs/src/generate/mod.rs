//! Objects made from literals, files and environment files.

pub(crate) mod chart;

use base64::Engine;
use yaml::{Mapping, Node, Style, Value};

use crate::error::BuildError;
use crate::kustomization::spec::Generator;
use crate::object::data_value;
use crate::resource::Resource;

/// Which object a generator makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
}

/// Reads a file of the kustomization.
pub(crate) type Load<'l> = dyn Fn(&str) -> Result<std::sync::Arc<[u8]>, BuildError> + 'l;

/// Makes the object of one generator.
pub(crate) fn generate(kind: Kind, generator: &Generator, load: &Load<'_>) -> Result<Resource, BuildError> {
    if generator.name.is_empty() {
        return Err(BuildError::syntax("a generator has no `name`"));
    }
    let mut object = Mapping::new();
    object.insert("apiVersion", "v1");
    object.insert("kind", if kind == Kind::ConfigMap { "ConfigMap" } else { "Secret" });
    let mut metadata = Mapping::new();
    metadata.insert("name", Node::made(generator.name.as_str()));
    if !generator.namespace.is_empty() {
        metadata.insert("namespace", Node::made(generator.namespace.as_str()));
    }
    for (field, pairs) in [("labels", &generator.options.labels), ("annotations", &generator.options.annotations)] {
        if !pairs.is_empty() {
            let pairs: Mapping = pairs.iter().map(|(key, value)| (key.clone(), in_quotes(value))).collect();
            metadata.insert(field, pairs);
        }
    }
    object.insert("metadata", metadata);
    if kind == Kind::Secret {
        let kind = if generator.secret_type.is_empty() { "Opaque" } else { &generator.secret_type };
        object.insert("type", Node::made(kind));
        object.insert("data", Mapping::new());
    }
    for (key, value) in pairs(generator, load)? {
        let (field, text) = match (kind, String::from_utf8(value)) {
            (Kind::ConfigMap, Ok(text)) => ("data", text),
            (Kind::ConfigMap, Err(bytes)) => ("binaryData", base64_lines(bytes.as_bytes())),
            (Kind::Secret, Ok(text)) => ("data", base64_lines(text.as_bytes())),
            (Kind::Secret, Err(bytes)) => ("data", base64_lines(bytes.as_bytes())),
        };
        if let Some(data) = object.get_or_insert_with(field, || Mapping::new().into()).as_mapping_mut() {
            data.insert(key, data_value(text.into()));
        }
    }
    if generator.options.immutable {
        object.insert("immutable", Value::Bool(true));
    }
    let mut resource = Resource::new(object.into());
    resource.node.span = generator.span;
    resource.behavior = generator.behavior;
    resource.needs_hash = !generator.options.disable_name_suffix_hash;
    Ok(resource)
}

fn in_quotes(text: &str) -> Node {
    let mut node = Node::from(text);
    node.set_style(Style::SingleQuoted);
    node
}

/// Base64, broken into lines of 70 characters when it is longer.
fn base64_lines(bytes: &[u8]) -> String {
    const LINE: usize = 70;
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    if text.len() < LINE {
        return text;
    }
    let mut out = String::with_capacity(text.len() + text.len() / LINE + 1);
    for line in text.as_bytes().chunks(LINE) {
        out.push_str(std::str::from_utf8(line).unwrap_or_default());
        out.push('\n');
    }
    out
}

fn pairs(generator: &Generator, load: &Load<'_>) -> Result<Vec<(String, Vec<u8>)>, BuildError> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    for path in &generator.envs {
        let content = load(path)?;
        env_lines(&content, path, &mut all)?;
    }
    for literal in &generator.literals {
        all.push(literal_pair(literal)?);
    }
    for source in &generator.files {
        let (key, path) = file_source(source)?;
        all.push((key.to_owned(), load(path)?.to_vec()));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    if let Some((key, _)) = all.windows(2).find_map(|two| match two {
        [a, b] if a.0 == b.0 => Some(a),
        _ => None,
    }) {
        let message = format!("the generator `{}` has the key `{key}` twice", generator.name);
        return Err(BuildError::conflict(message));
    }
    Ok(all)
}

fn literal_pair(literal: &str) -> Result<(String, Vec<u8>), BuildError> {
    match literal.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), unquote(value).as_bytes().to_vec())),
        _ => Err(BuildError::syntax(format!("the literal `{literal}` is wrong")).hint("write key=value")),
    }
}

/// Takes quotes away that stand at both ends.
fn unquote(text: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    text
}

/// Key and path of a file source: `path` or `key=path`.
fn file_source(source: &str) -> Result<(&str, &str), BuildError> {
    let wrong = |message: &str| Err(BuildError::syntax(format!("the file source `{source}` {message}")));
    match source.split_once('=') {
        None => Ok((source.trim_end_matches('/').rsplit('/').next().unwrap_or(source), source)),
        Some((_, path)) if path.contains('=') => wrong("has more than one `=`"),
        Some(("", _)) => wrong("has no key"),
        Some((_, "")) => wrong("has no path"),
        Some((key, path)) => Ok((key, path)),
    }
}

/// Lines `KEY=value`; `#` begins a comment, a line without `=` is a key with an empty value.
fn env_lines(content: &[u8], path: &str, all: &mut Vec<(String, Vec<u8>)>) -> Result<(), BuildError> {
    let content = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(content);
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Ok(line) = std::str::from_utf8(line) else {
            let mut error = BuildError::syntax("an environment file must be UTF-8").in_file(path);
            (error.line, error.column) = (index + 1, 1);
            return Err(error);
        };
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        if !key.is_empty() {
            all.push((key.to_owned(), value.as_bytes().to_vec()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_lose_matching_quotes_only() {
        let check = |literal: &str, expect: Option<(&str, &str)>| {
            let found = literal_pair(literal).ok().map(|(key, value)| (key, String::from_utf8(value).unwrap()));
            assert_eq!(found, expect.map(|(key, value)| (key.to_owned(), value.to_owned())), "{literal}");
        };
        check("a=b", Some(("a", "b")));
        check("a=\"b\"", Some(("a", "b")));
        check("a='b'", Some(("a", "b")));
        check("a='b\"", Some(("a", "'b\"")));
        check("a=\"", Some(("a", "\"")));
        check("a=", Some(("a", "")));
        check("a=b=c", Some(("a", "b=c")));
        check("a", None);
        check("=b", None);
    }

    #[test]
    fn environment_files_are_read_line_by_line() {
        let mut all = Vec::new();
        env_lines(b"\xEF\xBB\xBFA=1\r\n# note\n\n  B= x y \nC\n=z\n", "f", &mut all).unwrap();
        let text: Vec<(String, String)> =
            all.into_iter().map(|(key, value)| (key, String::from_utf8(value).unwrap())).collect();
        assert_eq!(text, [("A".into(), "1".into()), ("B".into(), " x y ".into()), ("C".into(), String::new())]);
    }

    #[test]
    fn file_sources_have_a_key_and_a_path() {
        assert_eq!(file_source("a/b.txt").unwrap(), ("b.txt", "a/b.txt"));
        assert_eq!(file_source("k=a/b.txt").unwrap(), ("k", "a/b.txt"));
        for wrong in ["=a", "a=", "a=b=c"] {
            assert!(file_source(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn long_base64_is_broken_into_lines() {
        assert_eq!(base64_lines(b"abc"), "YWJj");
        let long = base64_lines(&[0; 60]);
        assert_eq!(long.lines().map(str::len).collect::<Vec<_>>(), [70, 10]);
        assert!(long.ends_with('\n'));
    }
}
