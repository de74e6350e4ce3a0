//! The next bundle: what is published, verified, planned, proposed.

use std::collections::BTreeMap;

use anyhow::Context as _;
use approvals::text::update::{BundleReport, asking, bundle_text};
use bundles::{Bundles, Digest, EksdSignatureVerdict, Manifest, PublishedRelease, SignatureVerdict};
use overlays::Manifests;
use planning::updates::{bundle_edits, candidates, present};
use planning::wanted::{NeededProviders, wanted};
use policy::Signatures;

use super::branch::{Offer, message};
use super::downloads::Downloads;
use super::{PREFIX, Run, Update, UpdateState};

const KIND: &str = "eksa";

/// Why a release is not proposed although its time has come.
enum Stop {
    /// Something vouches against it.
    Refused(String),
    /// It could not be found out.
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Run<'_> {
    /// What is found of bundles, and whether all of it is known.
    pub(super) async fn bundle(&mut self) -> (Vec<Update>, bool) {
        let Some(address) = &self.policy.releases else { return (Vec::new(), true) };
        match Box::pin(self.releases(address)).await {
            Ok(updates) => {
                let is_known = updates.iter().all(|update| update.state != UpdateState::Failed);
                (updates, is_known)
            }
            Err(error) => (vec![Update::new(KIND, "", UpdateState::Failed, format!("{error:#}"))], false),
        }
    }

    async fn releases(&mut self, address: &str) -> anyhow::Result<Vec<Update>> {
        let manifests = self.updater.manifests(self.reading)?;
        let hint = "--update-host names the hosts that may be asked";
        let bytes = manifests.get(address).with_context(|| format!("the releases manifest cannot be had; {hint}"))?;
        let releases = bundles::parse_releases(address, &bytes)?;
        let present = present(&self.reading.fleet, &releases)?;
        let (chosen, passed_over) = candidates(&releases, &present, self.policy, self.now);
        let mut updates = Vec::new();
        for release in chosen {
            let update = Box::pin(self.release(release, manifests.as_ref())).await;
            let ends = update.state != UpdateState::Refused && update.state != UpdateState::Declined;
            updates.push(update);
            // One at a time: the patch of today's minor is proposed only where the next minor is not to be.
            if ends {
                break;
            }
        }
        let passed = |passed: planning::updates::PassedOver| {
            Update::new(KIND, passed.version, UpdateState::PassedOver, passed.reason)
        };
        updates.extend(passed_over.into_iter().map(passed));
        if updates.is_empty() {
            let message = "nothing later is published".to_owned();
            updates.push(Update::new(KIND, present.version.to_string(), UpdateState::Current, message));
        }
        Ok(updates)
    }

    async fn release(&mut self, release: &PublishedRelease, manifests: &dyn Manifests) -> Update {
        let version = release.version.to_string();
        match Box::pin(self.propose(release, manifests)).await {
            Ok(update) => update,
            Err(Stop::Refused(reason)) => Update::new(KIND, version, UpdateState::Refused, reason),
            Err(Stop::Failed(error)) => Update::new(KIND, version, UpdateState::Failed, format!("{error:#}")),
        }
    }

    async fn propose(&mut self, release: &PublishedRelease, manifests: &dyn Manifests) -> Result<Update, Stop> {
        let version = release.version.as_str();
        let branch = format!("{PREFIX}eksa-{version}").parse()?;
        if let Some(closed) = self.closed(&branch).await? {
            return Ok(Self::told(KIND, version, Ok(closed)));
        }
        let address = &release.bundle_manifest_url;
        let bytes = manifests.get(address)?;
        let bundles = bundles::parse_bundles(address, &bytes)?;
        let fleet = &self.reading.fleet;
        let mut signatures = vec![self.verified(&bundles)?];
        let leaves_out = |section: &str| NeededProviders::of(fleet).leaves_out(section);
        let (wanted, _) = wanted(std::slice::from_ref(&bundles), &[], &leaves_out);
        let (mut contents, mut lock) = (BTreeMap::new(), fleet.lock.clone());
        for (wanted, used_by) in wanted {
            let content = manifests.get(&wanted.address).with_context(|| format!("{used_by} of {}", bundles.name))?;
            let digest = Digest::of(&content);
            if let Some(locked) = lock.get(&wanted.uri).filter(|locked| *locked != digest) {
                let reason = format!("{} has other content than bundles.lock says ({locked})", wanted.uri);
                return Err(Stop::Refused(reason));
            }
            lock.insert(wanted.uri.clone(), digest);
            contents.insert(wanted.uri, content);
        }
        signatures.extend(self.verified_releases(&bundles, &contents)?);
        let edits = match bundle_edits(fleet, self.reading.source.files.as_ref(), release, &bundles, &bytes, &lock) {
            Ok(edits) => edits,
            Err(error) => return Err(Stop::Refused(error.to_string())),
        };
        let downloads = Downloads::new(contents);
        let title = format!("EKS Anywhere {version}: {}", bundles.name);
        let following = fleet.clusters.iter().filter(|cluster| overlays::uses_bundle(fleet, cluster));
        let names: Vec<String> = following.map(|cluster| cluster.name.clone()).collect();
        let judged = self.judge(&names, &edits.files, &downloads, message(&branch, &title))?;
        if let Some((cluster, reason)) = judged.refused.first() {
            return Err(Stop::Refused(format!("cluster {cluster}: {reason}")));
        }
        let before = fleet.bundles.iter().max_by_key(|file| file.bundles.number).context("there is no bundle")?;
        let plans: Vec<&rollout::Plan> = judged.plans.iter().map(AsRef::as_ref).collect();
        let asking: Vec<String> = asking(&plans).into_iter().map(str::to_owned).collect();
        let automatic = asking.is_empty();
        let body = bundle_text(&BundleReport {
            release,
            bundles: &bundles,
            before: &before.bundles,
            digest: Digest::of(&bytes).to_string(),
            signatures,
            locked: downloads.len(),
            referring: &edits.referring,
            staying: &edits.staying,
            plans,
        });
        let offer = Offer { branch, title, body, asking, files: &edits.files, commit: judged.commit };
        let standing = Box::pin(self.offer(&offer)).await;
        Ok(Self::told(KIND, version, standing).automatic(automatic))
    }

    /// What the signature of the bundle says. One that does not fit is refused; one that is missing, where the policy asks for it.
    fn verified(&self, bundles: &Bundles) -> Result<String, Stop> {
        let verdict = bundles::verify_signature(bundles);
        let statement = format!("{}: {}", bundles.name, verdict.statement());
        let asked = self.reading.fleet.policy.signatures;
        match verdict {
            SignatureVerdict::Valid { .. } => Ok(statement),
            SignatureVerdict::Missing if asked != Signatures::Require => Ok(statement),
            SignatureVerdict::Invalid { .. } if asked == Signatures::Off => Ok(statement),
            SignatureVerdict::Missing | SignatureVerdict::Invalid { .. } => Err(Stop::Refused(statement)),
        }
    }

    /// The same of the EKS-D releases: of their names, and of their manifests where they were fetched.
    fn verified_releases(
        &self,
        bundles: &Bundles,
        contents: &BTreeMap<String, std::sync::Arc<[u8]>>,
    ) -> Result<Vec<String>, Stop> {
        let asked = self.reading.fleet.policy.signatures;
        let mut statements = Vec::new();
        for reference in bundles.versions_bundles.iter().filter_map(|it| it.eks_d.as_ref()) {
            let fetched = reference.manifest_url.as_ref().and_then(|url| Some((url, contents.get(url)?)));
            let release = match fetched {
                Some((url, bytes)) => bundles::parse(url, bytes)?.into_iter().find_map(|manifest| match manifest {
                    Manifest::EksdRelease(release) => Some(release),
                    Manifest::Bundles(_) | Manifest::EksaRelease(_) => None,
                }),
                None => None,
            };
            let verdicts = std::iter::once(bundles::verify_eksd_reference(bundles, reference))
                .chain(release.map(|release| bundles::verify_eksd_release(bundles, &release)));
            for verdict in verdicts {
                let name = reference.name.as_deref().unwrap_or("an EKS-D release without a name");
                let statement = format!("{name}: {}", verdict.statement());
                let is_refused = match verdict {
                    EksdSignatureVerdict::Valid => false,
                    EksdSignatureVerdict::Missing => asked == Signatures::Require,
                    EksdSignatureVerdict::Invalid { .. } => asked != Signatures::Off,
                };
                if is_refused {
                    return Err(Stop::Refused(statement));
                }
                if !statements.contains(&statement) {
                    statements.push(statement);
                }
            }
        }
        Ok(statements)
    }
}
