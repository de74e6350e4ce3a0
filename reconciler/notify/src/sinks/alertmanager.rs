//! Alertmanager's silences, held as leases: short, renewed while they are wanted, and found again by what stands in them.
//!
//! Architecture Invariant: a silence names one cluster and single alerts, and ends by itself a quarter of an hour after whoever holds it
//! has died. Which alerts, the operator says: a push to the fleet repository silences nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::ClusterName;
use jiff::{SignedDuration, Timestamp};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use rollout::StageId;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};

use super::http::Http;
use crate::settings::SecretFile;

/// Who has made a silence.
const OWNER: &str = "stepgate";

/// How long a silence lasts without being renewed, and what is left of it when it is.
const LASTS: SignedDuration = SignedDuration::from_mins(15);
const RENEWED: SignedDuration = SignedDuration::from_mins(11);

/// An Alertmanager, and which alerts say nothing there while which stages are rolled out.
#[derive(Debug)]
pub(crate) struct Alertmanager {
    pub(crate) http: Arc<Http>,
    pub(crate) address: Url,
    pub(crate) token: Option<SecretFile>,
    pub(crate) label: String,
    pub(crate) stages: BTreeMap<String, Vec<String>>,
}

/// A silence, as Alertmanager tells it and takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Silence {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    matchers: Vec<Matcher>,
    starts_at: Timestamp,
    ends_at: Timestamp,
    created_by: String,
    comment: String,
    #[serde(default, skip_serializing)]
    status: Option<Status>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Matcher {
    name: String,
    value: String,
    is_regex: bool,
    #[serde(default = "yes")]
    is_equal: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Status {
    state: String,
}

fn yes() -> bool {
    true
}

impl Alertmanager {
    /// The alerts that say nothing while this stage is rolled out.
    fn alerts(&self, stage: &StageId) -> &[String] {
        let name = stage.name.to_string();
        let group = name.split_once('/').map(|(family, _)| family.to_owned());
        let alerts = self.stages.get(&name).or_else(|| self.stages.get(&group?));
        alerts.map_or(&[], Vec::as_slice)
    }

    /// Brings the silences of these clusters to what is rolled out of them now; none where nothing is. Those of other clusters are left
    /// alone: they end by themselves.
    pub(crate) async fn hold(
        &self,
        rolled: &BTreeMap<ClusterName, Option<StageId>>,
        now: Timestamp,
    ) -> Result<(), String> {
        let wanted: Vec<Silence> =
            rolled.iter().filter_map(|(cluster, stage)| self.wanted(cluster, stage.as_ref()?, now)).collect();
        let known = self.known(rolled).await?;
        let mut kept = BTreeSet::new();
        for silence in wanted {
            let same =
                known.iter().find(|known| known.comment == silence.comment && known.matchers == silence.matchers);
            match same {
                Some(same) => {
                    kept.extend(same.id.clone());
                    if same.ends_at.duration_since(now) < RENEWED {
                        // With its id and start as they are, it is the same one that lasts longer.
                        let renewed = Silence { ends_at: silence.ends_at, status: None, ..same.clone() };
                        self.post(&renewed).await?;
                    }
                }
                None => self.post(&silence).await?,
            }
        }
        for silence in known {
            if let Some(id) = silence.id.filter(|id| !kept.contains(id)) {
                self.answer(Method::DELETE, &["silence", &id], None).await?;
            }
        }
        Ok(())
    }

    fn wanted(&self, cluster: &ClusterName, stage: &StageId, now: Timestamp) -> Option<Silence> {
        let alerts = self.alerts(stage);
        if alerts.is_empty() {
            return None;
        }
        let matcher =
            |name: &str, value: String, is_regex| Matcher { name: name.to_owned(), value, is_regex, is_equal: true };
        Some(Silence {
            id: None,
            matchers: vec![
                matcher(&self.label, cluster.to_string(), false),
                matcher("alertname", alerts.join("|"), true),
            ],
            starts_at: now,
            ends_at: now.checked_add(LASTS).unwrap_or(now),
            created_by: OWNER.to_owned(),
            comment: format!("Stepgate rolls out {stage} of {cluster}; ends at its gate"),
            status: None,
        })
    }

    /// The silences of ours that are about these clusters and have not ended.
    async fn known(&self, rolled: &BTreeMap<ClusterName, Option<StageId>>) -> Result<Vec<Silence>, String> {
        let bytes = self.answer(Method::GET, &["silences"], None).await?;
        let all: Vec<Silence> = serde_json::from_slice(&bytes)
            .map_err(|error| format!("its list of silences is not understood: {error}"))?;
        let is_ours = |silence: &Silence| {
            let lives = silence.status.as_ref().is_some_and(|status| status.state != "expired");
            let cluster = silence.matchers.iter().find(|matcher| matcher.name == self.label);
            let cluster = cluster.and_then(|matcher| matcher.value.parse::<ClusterName>().ok());
            lives && silence.created_by == OWNER && cluster.is_some_and(|cluster| rolled.contains_key(&cluster))
        };
        let in_order = |mut silence: Silence| {
            silence.matchers.sort_by_key(|matcher| matcher.name != self.label);
            silence
        };
        Ok(all.into_iter().filter(is_ours).map(in_order).collect())
    }

    async fn post(&self, silence: &Silence) -> Result<(), String> {
        let body = serde_json::to_string(silence).map_err(|error| error.to_string())?;
        self.answer(Method::POST, &["silences"], Some(body)).await.map(drop)
    }

    async fn answer(&self, method: Method, path: &[&str], body: Option<String>) -> Result<Vec<u8>, String> {
        let mut url = self.address.clone();
        url.path_segments_mut()
            .map_err(|()| "its address has no path".to_owned())?
            .pop_if_empty()
            .extend(["api", "v2"])
            .extend(path);
        let mut request: RequestBuilder = self.http.request(method, url);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.read()?.expose_secret());
        }
        let answer = self.http.ask(request).await?;
        match answer.status {
            status if status.is_success() => Ok(answer.bytes),
            // Somebody has ended it before.
            StatusCode::NOT_FOUND => Ok(Vec::new()),
            status => Err(format!("it answers {}", status.as_u16())),
        }
    }
}
