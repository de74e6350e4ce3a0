//! What Bundles manifests say and what changed between two of them.
