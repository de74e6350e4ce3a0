//! Answers over HTTP, whoever asked: bounded in size, and failures told with their causes and without addresses, which may hold secrets.

use reqwest::Response;

/// The body of an answer of at most `maximum` bytes.
///
/// # Errors
/// Why it was not read to its end.
pub async fn body(mut response: Response, maximum: u64) -> Result<Vec<u8>, String> {
    let too_large = || format!("it has more than {maximum} bytes");
    if response.content_length().is_some_and(|length| length > maximum) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(chain)? {
        if (bytes.len() + chunk.len()) as u64 > maximum {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// An error with its causes, which reqwest's own texts leave out, and without its address: that of a redirect may hold a signature.
pub fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
