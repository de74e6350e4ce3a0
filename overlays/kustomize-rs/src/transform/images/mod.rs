//! `images`.

mod places;

use regex::Regex;
use yaml::{Node, Value};

use super::field::{Create, set_plain, visit};
use crate::error::BuildError;
use crate::kustomization::spec::Image;
use crate::object::Object;
use crate::resource::Resource;
use crate::schema::FieldSpec;
use crate::select::expression::compile;
use crate::select::pattern::Name;
use places::{Places, is_containers};

/// An entry of `images`, and what its name matches.
pub(crate) struct NamedImage {
    image: Image,
    pattern: ImagePattern,
}

impl NamedImage {
    pub(crate) fn new(image: Image) -> Result<Self, BuildError> {
        Ok(Self { pattern: ImagePattern::new(&image.name)?, image })
    }

    /// Bytes that it may put in one place.
    pub(crate) fn longest(&self) -> usize {
        let Image { new_name, new_tag, tag_suffix, digest, .. } = &self.image;
        new_name.len() + new_tag.len() + tag_suffix.len() + digest.len()
    }
}

/// Changes all images of those names, one entry after the other.
pub(crate) fn change(objects: &mut [Resource], images: &[NamedImage], fields: &[FieldSpec]) -> Result<(), BuildError> {
    for resource in objects.iter_mut().filter(|resource| resource.kind() != "CustomResourceDefinition") {
        let gvk = resource.gvk();
        let fields: Vec<&FieldSpec> = fields.iter().filter(|spec| gvk.is_selected(&spec.gvk)).collect();
        let places = Places::of(&resource.node, &fields);
        for NamedImage { image, pattern } in images {
            let mut set = |node: &mut Node| set_image(node, image, pattern);
            let result = match &places {
                Places::Known(places) => change_known(&mut resource.node, places, pattern, &mut set),
                Places::Anywhere => change_anywhere(&mut resource.node, &fields, &mut set),
            };
            result.map_err(|error| error.at(&resource.origin.file, resource.node.span))?;
            resource.settle();
        }
    }
    Ok(())
}

/// Calls `set` on the images of that name. What has none stays as it is, shared with other copies.
fn change_known(
    object: &mut Object,
    places: &[Vec<usize>],
    pattern: &ImagePattern,
    set: &mut dyn FnMut(&mut Node) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    for place in places {
        let text = object.at_indices(place).filter(|image| !image.is_null()).map(Node::to_text).unwrap_or_default();
        if pattern.is_match(&text)
            && let Some(image) = object.at_indices_mut(place)
        {
            set(image)?;
        }
    }
    Ok(())
}

/// Calls `set` wherever an image should be.
fn change_anywhere(
    object: &mut Node,
    fields: &[&FieldSpec],
    set: &mut dyn FnMut(&mut Node) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    change_containers(object, set)?;
    fields.iter().try_for_each(|spec| visit(object, spec, Create::Never, set))
}

/// A name as an expression, then a tag, then a digest.
enum ImagePattern {
    Name(Name),
    Regex(Regex),
}

impl ImagePattern {
    fn new(name: &str) -> Result<Self, BuildError> {
        if let Some(name) = Name::new(name) {
            return Ok(Self::Name(name));
        }
        let pattern = format!("^{name}(:[a-zA-Z0-9_.{{}}-]*)?(@sha256:[a-zA-Z0-9_.{{}}-]*)?$");
        compile(&pattern).map(Self::Regex)
    }

    fn is_match(&self, text: &str) -> bool {
        let name = match self {
            Self::Name(name) => name,
            Self::Regex(regex) => return regex.is_match(text),
        };
        let part = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'{' | b'}' | b'-'))
        };
        name.rest(text).is_some_and(|rest| {
            let (tag, digest) = match rest.split_once("@sha256:") {
                Some((tag, digest)) => (tag, digest),
                None => (rest, ""),
            };
            (tag.is_empty() || tag.strip_prefix(':').is_some_and(part)) && part(digest)
        })
    }
}

fn set_image(node: &mut Node, image: &Image, pattern: &ImagePattern) -> Result<(), BuildError> {
    let Some(text) = node.scalar_text() else {
        return Err(BuildError::transform("an image is a text, found a list or map"));
    };
    let text = if node.is_null() { String::new() } else { text.into_owned() };
    if pattern.is_match(&text) { set_plain(node, &image.apply(&text)) } else { Ok(()) }
}

/// Changes the images of all lists called `containers` or `initContainers`, wherever they are.
fn change_containers(
    node: &mut Node,
    set: &mut dyn FnMut(&mut Node) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().try_for_each(|item| change_containers(item, set)),
        Value::Mapping(mapping) => {
            for entry in mapping.iter_mut() {
                change_containers(&mut entry.value, set)?;
                if !is_containers(&entry.key) {
                    continue;
                }
                for item in entry.value.as_sequence_mut().into_iter().flatten() {
                    match &mut item.value {
                        Value::Null => {}
                        Value::Mapping(container) => {
                            if let Some(image) = container.get_mut("image") {
                                set(image)?;
                            }
                        }
                        _ => return Err(BuildError::transform("a list of containers holds something else")),
                    }
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

impl Image {
    fn apply(&self, text: &str) -> String {
        let (name, mut tag, mut digest) = split(text);
        let name = if self.new_name.is_empty() { name } else { &self.new_name };
        let suffixed = format!("{tag}{}", self.tag_suffix);
        match (self.new_tag.is_empty(), self.digest.is_empty()) {
            (false, _) => (tag, digest) = (&self.new_tag, &self.digest),
            (true, false) => (tag, digest) = ("", &self.digest),
            (true, true) if !self.tag_suffix.is_empty() => (tag, digest) = (&suffixed, ""),
            (true, true) => {}
        }
        let part = |mark: &str, text: &str| if text.is_empty() { String::new() } else { format!("{mark}{text}") };
        format!("{name}{}{}", part(":", tag), part("@", digest))
    }
}

/// Name, tag and digest. A colon before the first slash belongs to the host.
fn split(text: &str) -> (&str, &str, &str) {
    let start = text.find('/').unwrap_or(0);
    let rest = text.get(start..).unwrap_or_default();
    let (at, colon) = (rest.find('@'), rest.find(':'));
    let cut = |position: usize| text.split_at_checked(start + position).unwrap_or((text, ""));
    match (at, colon) {
        (None, None) => (text, "", ""),
        (Some(at), colon) if colon.is_none_or(|colon| at < colon) => {
            let (name, digest) = cut(at);
            (name, "", digest.trim_start_matches('@'))
        }
        (at, Some(colon)) => {
            let (name, rest) = cut(colon);
            let (tag, digest) = match at {
                Some(at) => rest.split_at_checked(at - colon).unwrap_or((rest, "")),
                None => (rest, ""),
            };
            (name, tag.strip_prefix(':').unwrap_or(tag), digest.strip_prefix('@').unwrap_or(digest))
        }
        (Some(_), None) => (text, "", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_fall_into_name_tag_and_digest() {
        let check = |text: &str, expect: (&str, &str, &str)| assert_eq!(split(text), expect, "{text}");
        check("nginx", ("nginx", "", ""));
        check("nginx:1.2", ("nginx", "1.2", ""));
        check("nginx@sha256:ab", ("nginx", "", "sha256:ab"));
        check("nginx:1.2@sha256:ab", ("nginx", "1.2", "sha256:ab"));
        check("host:5000/a/b:1", ("host:5000/a/b", "1", ""));
        check("host:5000/a/b", ("host:5000/a/b", "", ""));
    }

    #[test]
    fn a_new_tag_or_digest_replaces_both() {
        let image = |new_name: &str, new_tag: &str, tag_suffix: &str, digest: &str| Image {
            name: "a".into(),
            new_name: new_name.into(),
            new_tag: new_tag.into(),
            tag_suffix: tag_suffix.into(),
            digest: digest.into(),
        };
        assert_eq!(image("b", "", "", "").apply("a:1@sha256:x"), "b:1@sha256:x");
        assert_eq!(image("", "2", "", "").apply("a:1@sha256:x"), "a:2");
        assert_eq!(image("", "", "", "sha256:y").apply("a:1@sha256:x"), "a@sha256:y");
        assert_eq!(image("", "2", "", "sha256:y").apply("a:1"), "a:2@sha256:y");
        assert_eq!(image("", "", "-x", "").apply("a:1@sha256:x"), "a:1-x");
    }
}
