//! The nearest known name to a misspelt one.

/// The name of `known` with the fewest edits to `name`, if those are few for its length; the first one when several are.
#[must_use]
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let allowed = 1 + name.chars().count() / 4;
    let folded = name.to_lowercase();
    known
        .iter()
        .map(|candidate| (strsim::osa_distance(&folded, &candidate.to_lowercase()), *candidate))
        .filter(|(edits, _)| *edits <= allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_not_strangers() {
        let known = ["soak", "timeout", "approval", "onFailure", "allowDowngrade"];
        for (name, expected) in [
            ("saok", Some("soak")),
            ("timout", Some("timeout")),
            ("on_failure", Some("onFailure")),
            ("allowdowngrade", Some("allowDowngrade")),
            ("aproval", Some("approval")),
            ("bundle", None),
            ("x", None),
        ] {
            assert_eq!(nearest(name, &known), expected, "{name}");
        }
    }
}
