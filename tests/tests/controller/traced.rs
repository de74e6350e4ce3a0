//! Spans of rollouts at a collector: one trace a rollout, whatever dies in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use stepgate_notify::{Notifier, Sinks};

use crate::announced::note;
use crate::fleet::{CLUSTERS, Fleet, is_done};

/// A process lasts for so many passes: one that is new begins every soak anew.
const PASSES: u32 = 20;

/// What came, and how often.
#[derive(Default)]
struct Collector {
    spans: Vec<Span>,
    asked: usize,
}

impl Collector {
    /// Takes what a real collector takes. What it takes first it does not say it has taken.
    fn answer(&mut self, headers: &HeaderMap, body: &[u8]) -> StatusCode {
        if headers.get("content-type").is_none_or(|kind| kind != "application/x-protobuf")
            || headers.get("x-tenant").is_none_or(|tenant| tenant != "platform")
        {
            return StatusCode::UNSUPPORTED_MEDIA_TYPE;
        }
        let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
        let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        self.spans.extend(scopes.flat_map(|scope| scope.spans));
        self.asked += 1;
        if self.asked == 1 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
    }

    /// The spans by id; fails where one came twice with other content.
    fn by_id(&self) -> BTreeMap<Vec<u8>, Span> {
        let mut known = BTreeMap::new();
        for span in &self.spans {
            let before = known.insert(span.span_id.clone(), span.clone());
            assert!(before.is_none_or(|before| &before == span), "told twice, and not the same: {span:?}");
        }
        known
    }
}

#[test]
fn every_rollout_is_one_trace_whatever_processes_carry_it_out() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let collector: Arc<Mutex<Collector>> = Arc::default();
    let kept = Arc::clone(&collector);
    let router = Router::new()
        .fallback(async move |headers: HeaderMap, body: Bytes| kept.lock().unwrap().answer(&headers, &body));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, router).await });
    let folder = tempfile::tempdir().unwrap();
    let sink = format!("{{kind: otlp, address: 'http://{address}/v1/traces', headersFile: headers}}");
    std::fs::write(folder.path().join("collector.yaml"), sink).unwrap();
    std::fs::write(folder.path().join("headers"), "x-tenant=platform\n").unwrap();
    let fleet = Fleet::with_policy(|policy| policy);
    let journal = folder.path().join("announcements.json");
    fleet.bump();
    let mut controller = fleet.controller();
    for pass in 1.. {
        assert!(pass < 1000, "the rollout did not end");
        if pass % PASSES == 0 {
            controller = fleet.controller();
        }
        let sinks = Sinks::read(folder.path()).unwrap();
        let report = runtime.block_on(async {
            let mut notifier = Notifier::open(sinks, &journal, Arc::new(|_: &str, _| ())).unwrap();
            let report = fleet.pass(&controller);
            note(&fleet, &controller, &report, &mut notifier);
            while notifier.queued() > 0 {
                notifier.deliver().await;
            }
            report
        });
        if is_done(&report) {
            break;
        }
        fleet.wait(Some(&report));
    }
    let spans = collector.lock().unwrap().by_id();
    let traces: BTreeSet<&Vec<u8>> = spans.values().map(|span| &span.trace_id).collect();
    assert_eq!(traces.len(), CLUSTERS.len());
    let named = |span: &Span| (span.trace_id.clone(), span.name.clone());
    for span in spans.values() {
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        let parent = spans.get(&span.parent_span_id);
        assert_eq!(parent.is_none(), span.name == "rollout", "{span:?}");
        assert!(parent.is_none_or(|parent| parent.trace_id == span.trace_id), "{span:?}");
    }
    let of_stages: BTreeSet<_> = spans.values().map(named).collect();
    for cluster in CLUSTERS {
        let stages = fleet.stages(cluster);
        let is_told =
            |stage: &String| traces.iter().any(|trace| of_stages.contains(&((*trace).clone(), stage.clone())));
        assert!(stages.iter().filter(|stage| *stage != "verify").all(is_told), "{cluster}: {stages:?} {of_stages:?}");
    }
}
