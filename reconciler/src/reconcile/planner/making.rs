//! Making the plan of one cluster of a source commit: what is rendered, what people changed of that, cut into parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use overlays::{BundleFile, ClusterSpec, Fleet, RenderRequest, RenderedCluster, RenderedTree};
use rollout::{LedgerState, Plan};

use super::chained::Chained;
use super::context::Context;
use super::{PlanError, PlannedParts, Planner};
use crate::reconcile::cache::inputs::SourceReading;
use crate::reconcile::cache::tracked_files::TrackedFiles;
use crate::reconcile::clusters::directory::refused;
use planning::facts;
use planning::stage_tree::{self, StageTree};
use planning::{edits, plan};
use rollout::FluxReference;

impl Planner {
    /// The plan that the ledger is carrying out, made again from its own source commit, where it is not the newest plan.
    pub(super) fn running_plan(&self, context: &Context<'_>, newest: &Plan) -> Result<Option<PlannedParts>, PlanError> {
        let Some(ledger) = context.directory.ledger() else { return Ok(None) };
        if ledger.state != LedgerState::Running || ledger.plan == newest.digest {
            return Ok(None);
        }
        let source = self.source(self.repository.snapshot_of(&ledger.source)?)?;
        let Some(cluster) = source.fleet.cluster(context.name.as_str()) else { return Ok(None) };
        if let Some(rollback) = &ledger.rollback {
            let Planned { plan, parts, .. } = self.plan_back(context, &source, cluster, rollback)?;
            if plan.digest == ledger.plan {
                return Ok(Some((plan, parts)));
            }
        }
        let Planned { plan, parts, .. } = self.plan_forward(context, &source, cluster)?;
        Ok(Some((plan, parts)))
    }

    /// The plan of what a source commit asks for; where that is held back, the one of going back from it.
    pub(super) fn plan(
        &self,
        context: &Context<'_>,
        source: &SourceReading,
        cluster: &ClusterSpec,
    ) -> Result<Planned, PlanError> {
        match context.directory.ledger().and_then(|ledger| ledger.rollback.as_ref()) {
            Some(rollback) if self.is_held_back(context, source, cluster, rollback)? => {
                self.plan_back(context, source, cluster, rollback)
            }
            _ => self.plan_forward(context, source, cluster),
        }
    }

    pub(super) fn plan_forward(
        &self,
        context: &Context<'_>,
        source: &SourceReading,
        cluster: &ClusterSpec,
    ) -> Result<Planned, PlanError> {
        let deployed_tree = context.directory.deployed(context.name);
        let Chained { source: at, chain, broken } = self.chained(context, source, cluster, &deployed_tree)?;
        let source = at.as_ref().unwrap_or(source);
        let fleet = source.fleet.as_ref();
        let cluster = fleet.cluster(context.name.as_str()).unwrap_or(cluster);
        let files = TrackedFiles::new(source.files.as_ref());
        let missing = self.missing_record(context.deploy, context.name, context.directory)?;
        let missing = missing.map(|missing| missing.block(context.name, context.deploy.layout, &self.repository));
        let mut blocked = facts::blocks(fleet, cluster, &context.deployed.unreadable, missing);
        blocked.extend(broken);
        let bundle = match overlays::uses_bundle(fleet, cluster).then(|| overlays::bundle_for(fleet, cluster)) {
            None => None,
            Some(Ok(bundle)) => Some(bundle),
            Some(Err(problem)) => {
                blocked.push(facts::block(&problem));
                None
            }
        };
        // What is wrong with a name is told by what cannot be changed.
        let renamed = overlays::eksctl::eksctl_target(cluster, &deployed_tree).unwrap_or_default();
        let cluster = renamed.as_ref().unwrap_or(cluster);
        let (immutable, remarks) = facts::immutable_fields(&deployed_tree, cluster, &files);
        blocked.extend(immutable);
        let allow = context.befores.fetch_allow(context.newest);
        let rendered = self.render(fleet, &files, cluster, bundle, &deployed_tree, &allow);
        let deployed = facts::deployed_cluster(&deployed_tree, cluster);
        let steps = facts::specification_steps(fleet, &deployed_tree, &rendered, cluster);
        let groups = overlays::ordered_groups(fleet, cluster);
        let mut order: Vec<&str> = groups.iter().map(String::as_str).collect();
        let gone = stage_tree::gone_groups(&groups, &steps, context.directory.ledger());
        order.extend(gone.iter().map(String::as_str));
        let files_of_cluster = &context.directory.files;
        let mut parts =
            stage_tree::cut(context.name, cluster, files_of_cluster, &rendered, &order, &steps, deployed.as_ref())
                .map_err(|error| refused(context.name.as_str(), &error))?;
        let mut edits = edits::of_directory(context.directory);
        edits.extend(context.proposed.iter().cloned());
        let edits = edits::apply(&mut parts, &edits);
        let is_at_work = context.directory.ledger().is_some_and(|ledger| ledger.state == LedgerState::Running);
        // A part that could not be rendered may change, and what it would change is told.
        let changes_anything = parts.iter().any(|part| part.is_moved() || part.error.is_some());
        let base_source = if is_at_work || changes_anything { context.base.get()? } else { None };
        let base = base_source.map(|base| base.fleet.as_ref());
        let changes =
            bundle.map(|bundle| facts::component_changes(base, fleet, cluster, &bundle.bundles, deployed.as_ref()));
        let new_releases = bundle
            .map(|bundle| facts::new_releases(base, cluster, &bundle.bundles, deployed.as_ref()))
            .unwrap_or_default();
        let kustomizations = facts::kustomizations(fleet, cluster, &rendered, context.name);
        let overlay_conflicts = self.overlay_conflicts(base_source, source, cluster, bundle, &rendered, &allow);
        let facts = plan::Facts {
            fleet,
            befores: context.befores,
            newest: context.newest,
            cluster,
            name: context.name,
            deployed: deployed.as_ref(),
            directory: context.directory,
            source: source.files.snapshot().commit(),
            parts: &parts,
            changes: &changes.unwrap_or_default(),
            overlay_conflicts: &overlay_conflicts,
            kustomizations: &kustomizations,
            deployed_eksa: &context.deployed.eksa,
            new_releases: &new_releases,
            today: self.clock.now().to_zoned(TimeZone::UTC).date(),
            now: self.clock.now(),
            blocked,
            warnings: facts::warnings(fleet, cluster, &rendered)
                .into_iter()
                .chain(facts::without_namespace(fleet, &parts))
                .chain(remarks)
                .collect(),
            rollback: None,
        };
        let plan = Arc::new(Plan { edits, chain, ..rollout::plan(plan::input(&facts)) });
        let kustomizations = Arc::new(kustomizations);
        Ok(Planned { plan, parts: parts.into(), kustomizations, reaches_far: files.reached_far() })
    }

    fn render(
        &self,
        fleet: &Fleet,
        files: &TrackedFiles<'_>,
        cluster: &ClusterSpec,
        bundle: Option<&BundleFile>,
        deployed: &RenderedTree,
        allow: &[String],
    ) -> RenderedCluster {
        let (manifests, charts) = (self.sources.manifests(fleet, allow), self.sources.charts(fleet, allow));
        overlays::render::render(&RenderRequest {
            fleet,
            cluster,
            bundle,
            deployed,
            manifests: manifests.as_ref(),
            charts: charts.as_ref(),
            files,
        })
    }
}

/// A plan with the parts that its stages commit.
pub(super) struct Planned {
    pub plan: Arc<Plan>,
    pub parts: Arc<[StageTree]>,
    pub kustomizations: Arc<BTreeMap<String, FluxReference>>,
    pub reaches_far: bool,
}
