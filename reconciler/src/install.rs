//! What Stepgate is installed with in a management cluster: one set of manifests, as files for `kubectl`, a kustomize base and a Helm chart.
//!
//! `tests/tests/servers/installation/whole.rs` runs the program under the installed identity
//! through a whole rollout: no request is refused, and all that is granted is made use of.

use cluster::kubernetes::rollout_definition;

/// The manifests, in the order in which they are applied. `${…}` stands for what differs from one installation to another.
const MANIFESTS: [(&str, &str); 9] = [
    ("namespace.yaml", include_str!("../install/namespace.yaml")),
    ("service-account.yaml", include_str!("../install/service-account.yaml")),
    ("cluster-role.yaml", include_str!("../install/cluster-role.yaml")),
    ("cluster-role-probe.yaml", include_str!("../install/cluster-role-probe.yaml")),
    ("admission-policy.yaml", include_str!("../install/admission-policy.yaml")),
    ("role.yaml", include_str!("../install/role.yaml")),
    ("bindings.yaml", include_str!("../install/bindings.yaml")),
    ("network-policy.yaml", include_str!("../install/network-policy.yaml")),
    ("deployment.yaml", include_str!("../install/deployment.yaml")),
];

/// The file of the definition of `Rollout`.
const DEFINITION: &str = "rollouts.stepgate.dev.yaml";

/// What differs from one installation to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace; created with the rest, except by Helm.
    pub namespace: String,
    /// The container image.
    pub image: String,
    /// The fleet repository.
    pub repository: String,
    /// The branch that people write.
    pub source_branch: String,
    /// The image that the `helm` program is taken from.
    pub helm_image: String,
    /// Which cluster of the fleet it is installed in; none leaves that to be recorded or proven.
    pub management_cluster: Option<String>,
}

impl Settings {
    fn fill(&self, text: &str) -> String {
        [
            ("${NAMESPACE}", &self.namespace),
            ("${IMAGE}", &self.image),
            ("${REPOSITORY}", &self.repository),
            ("${SOURCE_BRANCH}", &self.source_branch),
            ("${HELM_IMAGE}", &self.helm_image),
            ("${MANAGEMENT_CLUSTER}", self.management_cluster.as_ref().unwrap_or(&String::new())),
        ]
        .into_iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Values go into quoted YAML and through Helm's templates as they are.
    ///
    /// # Errors
    /// One that holds a quote, a backslash, a brace or a line break; by its name.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        let settings = [
            ("namespace", &self.namespace),
            ("image", &self.image),
            ("repository", &self.repository),
            ("source branch", &self.source_branch),
            ("image with helm", &self.helm_image),
        ];
        let named = self.management_cluster.iter().map(|named| ("management cluster", named));
        let refused = |value: &str| {
            value.is_empty() || value.chars().any(|character| character.is_control() || "\"'\\{}$".contains(character))
        };
        match settings.into_iter().chain(named).find(|(_, value)| refused(value)) {
            Some((name, value)) => Err(InvalidSetting { name, value: value.clone() }),
            None => Ok(()),
        }
    }
}

/// A setting that cannot be written into a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {name} {value:?} is empty or holds a quote, a brace, a dollar sign, a backslash or a line break")]
pub struct InvalidSetting {
    name: &'static str,
    value: String,
}

/// Why the manifests could not be made.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A setting cannot be used.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// The definition could not be written as YAML.
    #[error("could not write the definition of Rollout: {0}")]
    Definition(String),
}

fn definition() -> Result<String, InstallError> {
    let definition = rollout_definition().map_err(|error| InstallError::Definition(error.to_string()))?;
    serde_yaml::to_string(&definition).map_err(|error| InstallError::Definition(error.to_string()))
}

/// Everything as one text for `kubectl apply --server-side -f -`.
///
/// # Errors
/// [`InstallError`].
pub fn manifests(settings: &Settings) -> Result<String, InstallError> {
    settings.check()?;
    let files = MANIFESTS.iter().map(|(_, text)| settings.fill(text));
    let files: Vec<String> = [definition()?].into_iter().chain(files).collect();
    Ok(files.join("---\n"))
}

/// A kustomize base: name and content of each file.
///
/// # Errors
/// [`InstallError`].
pub fn kustomize_base(settings: &Settings) -> Result<Vec<(String, String)>, InstallError> {
    settings.check()?;
    let mut files = vec![(DEFINITION.to_owned(), definition()?)];
    files.extend(MANIFESTS.iter().map(|(name, text)| ((*name).to_owned(), settings.fill(text))));
    let resources: String = files.iter().map(|(name, _)| format!("- {name}\n")).collect();
    let kustomization =
        format!("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{resources}");
    files.push(("kustomization.yaml".to_owned(), kustomization));
    Ok(files)
}

/// A Helm chart: path and content of each file. The definition lies in `crds`, which Helm installs first and never deletes.
///
/// # Errors
/// [`InstallError`].
pub fn helm_chart(settings: &Settings) -> Result<Vec<(String, String)>, InstallError> {
    settings.check()?;
    let version = env!("CARGO_PKG_VERSION");
    let chart = format!(
        "apiVersion: v2\nname: stepgate\ndescription: Upgrades Kubernetes clusters through git, stage by stage\ntype: application\n\
         version: {version}\nappVersion: \"{version}\"\n"
    );
    let values = format!(
        "# The container image.\nimage: \"{}\"\n# The fleet repository: https:// or ssh://.\nrepository: \"{}\"\n\
         # The branch that people write.\nsourceBranch: \"{}\"\n\
         # The image that the helm program is taken from.\nhelmImage: \"{}\"\n\
         # Which cluster of the fleet this is; empty leaves that to be recorded by adopt, or proven.\n\
         managementCluster: \"{}\"\n",
        settings.image,
        settings.repository,
        settings.source_branch,
        settings.helm_image,
        settings.management_cluster.as_deref().unwrap_or_default()
    );
    let templated = Settings {
        namespace: "{{ .Release.Namespace }}".to_owned(),
        image: "{{ .Values.image }}".to_owned(),
        repository: "{{ .Values.repository }}".to_owned(),
        source_branch: "{{ .Values.sourceBranch }}".to_owned(),
        helm_image: "{{ .Values.helmImage }}".to_owned(),
        management_cluster: Some("{{ .Values.managementCluster }}".to_owned()),
    };
    let mut files = vec![
        ("Chart.yaml".to_owned(), chart),
        ("values.yaml".to_owned(), values),
        (format!("crds/{DEFINITION}"), definition()?),
    ];
    // The namespace is Helm's: `--create-namespace`.
    let templates = MANIFESTS.iter().filter(|(name, _)| *name != "namespace.yaml");
    files.extend(templates.map(|(name, text)| (format!("templates/{name}"), templated.fill(text))));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            namespace: "stepgate-system".to_owned(),
            image: "registry.example/stepgate:v1".to_owned(),
            repository: "https://git.example/fleet.git".to_owned(),
            source_branch: "main".to_owned(),
            helm_image: "registry.example/helm:v4".to_owned(),
            management_cluster: None,
        }
    }

    #[test]
    fn every_form_holds_the_same_objects_and_leaves_nothing_to_fill_in() {
        let text = manifests(&settings()).unwrap();
        let base: Vec<_> = kustomize_base(&settings()).unwrap().into_iter().map(|(_, text)| text).collect();
        let chart: Vec<_> = helm_chart(&settings()).unwrap();
        let kinds = |text: &str| text.lines().filter(|line| line.starts_with("kind: ")).count();
        assert_eq!(kinds(&text), 15);
        // The kustomization itself; Helm makes the namespace.
        assert_eq!(base.iter().map(|text| kinds(text)).sum::<usize>(), 15 + 1);
        assert_eq!(chart.iter().map(|(_, text)| kinds(text)).sum::<usize>(), 15 - 1);
        assert!(!text.contains("${") && base.iter().all(|text| !text.contains("${")));
        assert!(chart.iter().all(|(_, text)| !text.contains("${") && !text.contains("namespace: stepgate-system")));
        assert!(text.contains("image: \"registry.example/stepgate:v1\""));
        for (name, value) in [
            ("STEPGATE_MIRROR", "/var/lib/stepgate/files/mirror"),
            ("STEPGATE_HELM", "/opt/stepgate/helm"),
            ("XDG_CACHE_HOME", "/var/lib/stepgate/files/cache"),
        ] {
            let variable = format!("- name: {name}\n          value: {value}\n");
            let written = |text: &str| text.contains(&variable);
            assert!(written(&text) && base.iter().any(|text| written(text)), "{name}");
            assert!(chart.iter().any(|(_, text)| written(text)), "{name}");
        }
    }

    #[test]
    fn a_setting_cannot_break_out_of_its_place() {
        for image in ["", "a\"\nkind: x", "{{ .Values }}", "a\nb", "${NAMESPACE}"] {
            let settings = Settings { image: image.to_owned(), ..settings() };
            assert!(manifests(&settings).is_err(), "{image}");
        }
    }
}
