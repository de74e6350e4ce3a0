//! Where a field stands in `stepgate.yaml`.

use yaml::Limits;

/// Line and column, from 1, of a field such as `deploy.branch` in the text of a policy: of its last part that is written there at the top. None where
/// nothing of it is.
#[must_use]
pub fn policy_place(bytes: &[u8], field: &str) -> Option<(usize, usize)> {
    let limits = Limits { bytes: 1 << 20, documents: 2, depth: 32, nodes: 100_000 };
    let documents = yaml::decode(bytes).and_then(|text| yaml::parse(&text, &limits)).ok()?;
    let mut node = &documents.first()?.root;
    let mut place = None;
    for part in field.split('.') {
        let Some(entry) = node.as_mapping().and_then(|mapping| mapping.into_iter().find(|entry| entry.key == part))
        else {
            break;
        };
        place = Some((entry.key_span.line(), entry.key_span.column()));
        node = &entry.value;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_where_it_is_written() {
        let text = b"apply: flux\ndeploy:\n  branch: deploy\nfetch: {allow: []}\n";
        for (field, place) in [
            ("apply", Some((1, 1))),
            ("deploy.branch", Some((3, 3))),
            ("deploy.path", Some((2, 1))),
            ("fetch.allow", Some((4, 9))),
            ("people", None),
        ] {
            assert_eq!(policy_place(text, field), place, "{field}");
        }
        assert_eq!(policy_place(b"a: [", "a"), None);
    }
}
