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
    /// What became of the logins that nodes have for it; none where none was needed, or nodes have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginReading>,
}

/// Where nodes find logins for an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "from")]
pub enum LoginSource {
    /// A Secret that pods name in their own namespace, or their `ServiceAccount` in the target tree.
    Secret {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// The `ServiceAccount` of pods that name no Secret: those that it names in the cluster.
    ServiceAccount {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// What EKS Anywhere gives nodes for their mirror: a Secret of its own in the management cluster.
    Mirror {
        /// Host and port of the mirror.
        host: String,
    },
}

/// What became of the logins that nodes have for an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum LoginReading {
    /// The registry answered whoever showed the login of this Secret.
    Used {
        /// `namespace/name`.
        secret: String,
    },
    /// The registry refuses the login of this Secret.
    Refused {
        /// `namespace/name`.
        secret: String,
    },
    /// What may hold one could not be read.
    Unread {
        /// Why.
        reason: String,
        /// What helps.
        remedy: String,
    },
    /// A Secret that pods name is not there.
    Absent {
        /// `namespace/name`.
        secret: String,
    },
    /// No Secret that pods name has one for this registry.
    Lacking,
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
