//! What pages refer to: a style sheet and a script, named by their content so that browsers may keep them.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/live.js");

/// A file with the path that names its content.
pub(in crate::dashboard) struct Asset {
    /// Path, with a digest in it.
    pub(in crate::dashboard) path: String,
    content_type: &'static str,
    text: &'static str,
}

impl Asset {
    fn new(name: &str, extension: &str, content_type: &'static str, text: &'static str) -> Self {
        let digest: String =
            digest(&SHA256, text.as_bytes()).as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Self { path: format!("/assets/{name}-{digest}.{extension}"), content_type, text }
    }

    /// The answer to whoever asks for it.
    pub(super) fn answer(&self) -> Response {
        let headers =
            [(header::CONTENT_TYPE, self.content_type), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
        (headers, self.text).into_response()
    }
}

/// The style sheet.
pub(in crate::dashboard) static STYLE_SHEET: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("style", "css", "text/css; charset=utf-8", STYLE));

/// The script.
pub(in crate::dashboard) static LIVE_SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("live", "js", "text/javascript; charset=utf-8", SCRIPT));
