//! Entries of `images`.

use crate::error::BuildError;
use crate::kustomization::fields::Fields;

/// One entry of `images`; empty texts change nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) new_name: String,
    pub(crate) new_tag: String,
    pub(crate) tag_suffix: String,
    pub(crate) digest: String,
}

pub(crate) fn image(fields: &Fields<'_>) -> Result<Image, BuildError> {
    Ok(Image {
        name: fields.text("name")?,
        new_name: fields.text("newName")?,
        new_tag: fields.text("newTag")?,
        tag_suffix: fields.text("tagSuffix")?,
        digest: fields.text("digest")?,
    })
}
