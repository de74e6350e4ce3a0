//! Bounds on what one YAML text may cost.

/// Upper bounds for one call of [`parse`](super::parse). Going past one is an error, never a truncation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Bytes of the text.
    pub bytes: usize,
    /// Documents in the text, empty ones included.
    pub documents: usize,
    /// Nesting of mappings and sequences, through aliases too.
    pub depth: usize,
    /// Nodes in all documents; an alias counts as often as the anchor it stands for has nodes.
    pub nodes: usize,
}

impl Default for Limits {
    /// 32 MiB, 100,000 documents, 200 levels, a million nodes: several times the largest manifests in use, and less than
    /// 256 MiB of memory.
    fn default() -> Self {
        Self { bytes: 32 << 20, documents: 100_000, depth: 200, nodes: 1_000_000 }
    }
}
