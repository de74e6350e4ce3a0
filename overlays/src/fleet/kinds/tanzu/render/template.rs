//! Templates named by what is made from them.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// `<base>-<8 hex>` of the canonical `spec.template`.
pub(super) fn name(base: &str, template: &Value) -> String {
    let digest = Sha256::digest(canonical(template));
    let hex: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{base}-{hex}")
}

/// JSON without blanks, its keys sorted: equal values give equal text.
pub(super) fn canonical(value: &Value) -> String {
    crate::json::compact(&super::node(value))
}
