//! Kubernetes minors that the policy names, each environment by itself.

use planning::updates::{KubernetesUpdate, kubernetes_updates};

use approvals::text::update::{asking, kubernetes_text};

use super::branch::{Offer, message};
use super::downloads::Downloads;
use super::{PREFIX, Run, Update, UpdateState};

impl Run<'_> {
    /// What is found of Kubernetes minors.
    pub(super) async fn kubernetes(&mut self) -> Vec<Update> {
        let mut updates = Vec::new();
        for update in kubernetes_updates(&self.reading.fleet, self.reading.source.files.as_ref(), self.policy) {
            let kind = if update.eksctl { "eks" } else { "kubernetes" };
            let version = match &update.environment {
                Some(environment) => format!("{} of {environment}", update.minor),
                None => update.minor.to_string(),
            };
            let mut update = update;
            let told = match Box::pin(self.minor(kind, &version, &mut update)).await {
                Ok(told) => told,
                Err(error) => Some(Update::new(kind, version.clone(), UpdateState::Failed, format!("{error:#}"))),
            };
            updates.extend(told);
            let left_out = update.left_out.iter().map(|(cluster, reason)| {
                Update::new(kind, version.clone(), UpdateState::Refused, format!("cluster {cluster}: {reason}"))
            });
            updates.extend(left_out);
        }
        updates
    }

    async fn minor(
        &mut self,
        kind: &'static str,
        version: &str,
        update: &mut KubernetesUpdate,
    ) -> anyhow::Result<Option<Update>> {
        let of = update.environment.as_ref().map(|environment| format!("-{environment}")).unwrap_or_default();
        let branch = format!("{PREFIX}{kind}-{}{of}", update.minor).parse()?;
        if let Some(closed) = self.closed(&branch).await? {
            return Ok(Some(Self::told(kind, version, Ok(closed))));
        }
        let title = format!("Kubernetes {version}");
        // Whose plan refuses it is left out, and the others are planned again without it.
        while !update.clusters.is_empty() {
            let files =
                update.edits(&self.reading.fleet, self.reading.source.files.as_ref()).map_err(anyhow::Error::msg)?;
            let names: Vec<String> = update.clusters.keys().cloned().collect();
            let judged = self.judge(&names, &files, &Downloads::default(), message(&branch, &title))?;
            if judged.refused.is_empty() {
                let plans: Vec<_> = judged.plans.iter().map(AsRef::as_ref).collect();
                let body = kubernetes_text(update, &plans);
                let asking: Vec<String> = asking(&plans).into_iter().map(str::to_owned).collect();
                let automatic = asking.is_empty();
                let offer = Offer { branch, title, body, asking, files: &files, commit: judged.commit };
                let standing = Box::pin(self.offer(&offer)).await;
                return Ok(Some(Self::told(kind, version, standing).automatic(automatic)));
            }
            for (cluster, reason) in judged.refused {
                update.clusters.remove(&cluster);
                update.left_out.insert(cluster, reason);
            }
        }
        Ok(None)
    }
}
