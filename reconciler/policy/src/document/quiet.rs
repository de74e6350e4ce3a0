//! A policy by which nobody is asked anything.

use super::types::{EnvironmentPolicy, Policy};
use crate::Approval;
use crate::document::sections::settings::StageSettings;
use crate::document::wave::WaveApproval;

impl Policy {
    /// From now on people are asked for nothing, at no level, and no forge; commits are not signed. What gates, windows and waves ask for stays.
    pub fn ask_nobody(&mut self) {
        self.forge = None;
        self.signing = None;
        self.updates = None;
        self.waves.iter_mut().for_each(|wave| wave.approval = WaveApproval::None);
        self.settings.ask_nobody();
        self.stages.values_mut().for_each(StageSettings::ask_nobody);
        let clusters = self.clusters.values_mut().map(|cluster| &mut cluster.own);
        self.environments.values_mut().chain(clusters).for_each(EnvironmentPolicy::ask_nobody);
    }
}

impl EnvironmentPolicy {
    fn ask_nobody(&mut self) {
        self.settings.ask_nobody();
        self.stages.values_mut().for_each(StageSettings::ask_nobody);
    }
}

impl StageSettings {
    fn ask_nobody(&mut self) {
        self.approval = Some(Approval::None);
    }
}

#[cfg(test)]
mod tests {
    use domain::RepoPath;

    use super::*;

    #[test]
    fn nobody_is_asked_at_any_level_and_everything_else_stays() {
        let text = "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\napproval: stage\nsoak: 7m\n\
                    stages: {control-plane: {approval: rollout}}\n\
                    environments: {prod: {clusters: [a], approval: stage, stages: {workers: {approval: stage, timeout: 3h}}}}\n\
                    clusters: {a: {stages: {cilium: {approval: stage}}}}\n\
                    signing: {format: ssh}\nwaves: [{name: all, clusters: [a], approval: before}]\n";
        let (mut policy, problems) = crate::read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        assert_eq!(problems, []);
        let before = policy.stage_policy("a", "workers/md-0");
        assert_eq!(before.approval, Approval::Stage);
        policy.ask_nobody();
        for stage in ["capi", "cilium", "control-plane", "workers/md-0"] {
            assert_eq!(policy.stage_policy("a", stage).approval, Approval::None, "{stage}");
        }
        let after = policy.stage_policy("a", "workers/md-0");
        assert_eq!((after.soak, after.timeout), (before.soak, before.timeout));
        assert_eq!((policy.signing, policy.waves[0].approval), (None, WaveApproval::None));
    }
}
