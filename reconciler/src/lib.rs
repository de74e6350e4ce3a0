//! The reconciler: everything with input and output.
