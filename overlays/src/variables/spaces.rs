//! White space that clusterctl drops before anything else.

/// Rewrites `${ NAME }`, `${ NAME}` and `${NAME }` to `${NAME}`, as clusterctl does first of all.
pub(super) fn without(source: &str) -> String {
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
