//! What a ConfigMap says of upgraders: the controller goes by it, and the plan looks there before anything begins.

use std::collections::BTreeMap;

use super::{Architecture, Release};

/// The upgraders by version, from `data` of a ConfigMap named [`crate::objects::UPGRADERS`].
#[must_use]
pub fn releases<'a>(data: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, Release> {
    let release = |(version, value): (&str, &str)| {
        let mut words = value.split_whitespace();
        let image = words.next()?.to_owned();
        let known = [Architecture::Amd64, Architecture::Arm64];
        let architectures = words.filter_map(|word| known.into_iter().find(|known| known.as_str() == word)).collect();
        Some((version.to_owned(), Release { image, architectures }))
    };
    data.into_iter().filter_map(release).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_an_image_with_architectures_behind_it() {
        let read = releases([("v1.36.1", "registry.test/upgrader:1 arm64 amd64"), ("v1.36.2", "a"), ("v1.36.3", " ")]);
        let release = |image: &str, architectures: &[Architecture]| Release {
            image: image.to_owned(),
            architectures: architectures.to_vec(),
        };
        let both = release("registry.test/upgrader:1", &[Architecture::Arm64, Architecture::Amd64]);
        let expected = [("v1.36.1".to_owned(), both), ("v1.36.2".to_owned(), release("a", &[]))];
        assert_eq!(read, BTreeMap::from(expected));
    }
}
