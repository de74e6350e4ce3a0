//! OpenTelemetry's protocol over HTTP: spans of rollouts, as a collector takes them.
//!
//! Trace and span ids follow from what a span is of, so a span that is told again is the same one.

use std::sync::Arc;

use jiff::Timestamp;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ring::digest::{SHA256, digest};
use secrecy::ExposeSecret as _;

use super::http::Http;
use crate::delivery::Delivery;
use crate::message::Message;
use crate::plain::{bounded, plain};
use crate::settings::SecretFile;
use rollout::Spans;

/// The most characters of a text that is told.
const LONGEST: usize = 1000;

#[derive(Debug)]
pub(crate) struct Otlp {
    pub(crate) http: Arc<Http>,
    /// The whole address, with the path `/v1/traces` where the collector has it.
    pub(crate) address: Url,
    /// A file with `name=value` pairs between commas, as `OTEL_EXPORTER_OTLP_HEADERS` has them.
    pub(crate) headers: Option<SecretFile>,
}

impl Otlp {
    pub(crate) async fn tell(&self, message: &Message) -> Delivery {
        let Some(spans) = &message.spans else { return Delivery::Taken(None) };
        let headers = match self.headers.as_ref().map_or_else(|| Ok(HeaderMap::new()), read) {
            Ok(headers) => headers,
            Err(reason) => return Delivery::later(reason),
        };
        let request = self.http.post(self.address.clone()).headers(headers);
        let request = request.header("content-type", "application/x-protobuf").body(export(spans).encode_to_vec());
        self.http.deliver(request).await
    }
}

/// The headers of a file. Nothing of the values is told: they are secrets.
fn read(file: &SecretFile) -> Result<HeaderMap, String> {
    let text = file.read()?;
    let mut headers = HeaderMap::new();
    for pair in text.expose_secret().split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let header = pair.split_once('=').and_then(|(name, value)| {
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name.trim().parse::<HeaderName>().ok()?, value))
        });
        let (name, value) = header.ok_or("the file of headers holds no name=value pairs between commas")?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn export(spans: &Spans) -> ExportTraceServiceRequest {
    let resource = Resource { attributes: vec![attribute("service.name", "stepgate")], ..Resource::default() };
    let scope = InstrumentationScope {
        name: "stepgate".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let spans = spans.spans.iter().map(|span| encoded(&spans.trace, span)).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { resource: Some(resource), scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }
}

fn encoded(trace: &str, span: &rollout::Span) -> Span {
    let status = span.failure.as_ref().map(|failure| Status { message: text(failure), code: StatusCode::Error.into() });
    Span {
        trace_id: id(&[trace], 16),
        span_id: id(&[trace, &span.place], 8),
        parent_span_id: span.parent.as_ref().map(|parent| id(&[trace, parent], 8)).unwrap_or_default(),
        name: text(&span.name),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: nanoseconds(span.began),
        end_time_unix_nano: nanoseconds(span.ended),
        attributes: span.attributes.iter().map(|(name, value)| attribute(name, value)).collect(),
        status,
        ..Span::default()
    }
}

/// The first bytes of a digest of these parts.
fn id(parts: &[&str], length: usize) -> Vec<u8> {
    let mut bytes = digest(&SHA256, parts.join("\n").as_bytes()).as_ref().to_vec();
    bytes.truncate(length);
    bytes
}

/// Since 1970; what lies before counts as then.
fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond()).unwrap_or_default()
}

fn text(text: &str) -> String {
    bounded(&plain(text), LONGEST)
}

fn attribute(name: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(text(value))) };
    KeyValue { key: name.to_owned(), value: Some(value), ..KeyValue::default() }
}
