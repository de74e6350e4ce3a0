//! `CustomResourceDefinitions`, webhooks and single objects, as far as gates read them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::observation::ObjectReference;

/// A `CustomResourceDefinition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomResourceDefinition {
    /// Name, `<plural>.<group>`.
    pub name: String,
    /// Condition `Established`.
    pub established: bool,
    /// Condition `NamesAccepted`.
    pub names_accepted: bool,
    /// Whether it is being deleted.
    #[serde(default)]
    pub deleting: bool,
    /// Every version in `spec.versions[].name`.
    pub versions: Vec<String>,
    /// Those with `served: true`.
    pub served_versions: Vec<String>,
    /// The one with `storage: true`.
    #[serde(default)]
    pub storage_version: Option<String>,
    /// `status.storedVersions`.
    #[serde(default)]
    pub stored_versions: Vec<String>,
    /// Whether a conversion webhook, where there is one, has its `caBundle`; none where there is no webhook.
    #[serde(default)]
    pub conversion_authority_injected: Option<bool>,
}

/// What is known of an admission webhook after a dry-run request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "result")]
pub enum WebhookOutcome {
    /// It answered: admitted, or refused for what the request says (which proves it works).
    Answered,
    /// It could not be called.
    Unreachable {
        /// The API server's words.
        message: String,
    },
    /// No request proves that it was called, but something is ready to answer behind it.
    Serving {
        /// So many endpoints are ready, of the Service that has the fewest.
        endpoints: u32,
        /// Why no request proves it.
        reason: String,
    },
    /// Nothing proves that it answers.
    Unproven {
        /// Why.
        message: String,
    },
}

/// One dry-run request that passes through a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookProbe {
    /// Name of the probe: the webhook configuration's name.
    pub name: String,
    /// When it was made.
    pub probed_at: Timestamp,
    /// What came back.
    pub outcome: WebhookOutcome,
}

/// Whether one object exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectPresence {
    /// Which object.
    #[serde(flatten)]
    pub reference: ObjectReference,
    /// Whether the API server found it; an object that was not asked for has no entry at all.
    pub present: bool,
    /// `metadata.generation`; none where the object is absent or its kind keeps none.
    #[serde(default)]
    pub generation: Option<i64>,
    /// Whether it is being deleted.
    #[serde(default)]
    pub deleting: bool,
    /// What a `StatefulSet` or a Job has not brought about yet; none where it has, and of every other kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    /// Where it is from; none where no gate asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ObjectOrigin>,
}

/// Which object it is, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectOrigin {
    /// `metadata.uid`.
    pub uid: String,
    /// Kinds of its owners.
    pub owners: Vec<String>,
    /// The field manager that wrote its data last, as far as it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
}

/// What an object has not brought about yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unfinished {
    /// The field that says so.
    pub field: String,
    /// What it says.
    pub message: String,
    /// Whether it never will, as its controller says.
    #[serde(default)]
    pub failed: bool,
}

/// A field that the deploy branch sets and somebody else has taken over, or one by which somebody has something else applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TakenField {
    /// Of which object.
    pub object: ObjectReference,
    /// Where in it, such as `spec.template.spec.containers[name=manager].image`.
    pub field: String,
    /// Whether the deploy branch does not set it at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub added: bool,
    /// The field manager that owns it now.
    pub manager: String,
    /// When that manager wrote the object last; none where the server does not say.
    #[serde(default)]
    pub at: Option<Timestamp>,
}
