//! Images: whether registries have them, and which of them nodes could not pull.

use serde::{Deserialize, Serialize};

use super::ObjectReference;

/// What a registry says of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageReading {
    /// The image, as it was asked for.
    pub image: String,
    /// What is known of it.
    pub state: ImageState,
}

/// What is known of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum ImageState {
    /// It is there.
    Found {
        /// The architectures of Linux that it is for; empty where it does not say.
        architectures: Vec<String>,
    },
    /// Its registry says that it is not.
    Missing {
        /// In which words.
        reason: String,
    },
    /// Nobody can tell.
    Unknown {
        /// Why; without the image, so that it can be told once for several.
        reason: String,
    },
    /// Its turn has not come yet.
    NotAsked,
}

/// An image that a kubelet could not pull.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnpulledImage {
    /// The Pod.
    pub object: ObjectReference,
    /// The image.
    pub image: String,
    /// The reason that its container waits for, such as `ImagePullBackOff`.
    pub reason: String,
    /// The node; none where it has none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}
