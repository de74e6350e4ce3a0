//! `commonAnnotations`. The work is that of labels, on other fields.

pub(crate) use super::labels::add;
