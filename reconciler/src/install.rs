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

/// What refuses changes by others, where it is wanted.
const GUARD: (&str, &str) = ("guard.yaml", include_str!("../install/guard.yaml"));

/// Who carries out what the guard refuses to others, besides Stepgate: Kubernetes' own controllers, and the operator that makes Cilium's definitions.
const GUARD_USERS: [&str; 5] = [
    "system:apiserver",
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:cilium-operator",
];

/// The namespaces of those whose service accounts carry it out: Flux, cert-manager, EKS Anywhere, and Cluster API's providers, as their own manifests
/// name them.
const GUARD_NAMESPACES: [&str; 20] = [
    "flux-system",
    "cert-manager",
    "eksa-system",
    "etcdadm-bootstrap-provider-system",
    "etcdadm-controller-system",
    "capi-system",
    "capi-kubeadm-bootstrap-system",
    "capi-kubeadm-control-plane-system",
    "capi-operator-system",
    "capa-system",
    "capas-system",
    "capc-system",
    "capd-system",
    "capg-system",
    "capm3-system",
    "capo-system",
    "capt-system",
    "capv-system",
    "capx-system",
    "capz-system",
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
    /// Whether the guard is installed, and who passes it besides those that it knows.
    pub guard: Option<GuardAccounts>,
}

/// Who passes the guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardAccounts {
    /// Names of users; of a service account `system:serviceaccount:NAMESPACE:NAME`.
    pub users: Vec<String>,
    /// Names of groups; all service accounts of a namespace are `system:serviceaccounts:NAMESPACE`.
    pub groups: Vec<String>,
}

impl GuardAccounts {
    /// With those that the guard knows, but for Stepgate itself, whose namespace differs.
    fn with_known(&self) -> Self {
        let known = GUARD_USERS.map(str::to_owned).into_iter();
        let namespaces = GUARD_NAMESPACES.iter().map(|namespace| format!("system:serviceaccounts:{namespace}"));
        Self {
            users: known.chain(self.users.iter().cloned()).collect(),
            groups: namespaces.chain(self.groups.iter().cloned()).collect(),
        }
    }
}

/// Lists of names as the manifests hold them.
struct GuardLists {
    users: String,
    groups: String,
}

impl GuardLists {
    /// As CEL writes them.
    fn of(accounts: &GuardAccounts) -> Self {
        let list = |names: &[String]| {
            format!("[{}]", names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", "))
        };
        let accounts = accounts.with_known();
        Self { users: list(&accounts.users), groups: list(&accounts.groups) }
    }

    /// As Helm fills them in: JSON is CEL.
    fn of_chart() -> Self {
        let list = |value: &str| format!("{{{{ .Values.{value} | default list | toJson }}}}");
        Self { users: list("guardUsers"), groups: list("guardGroups") }
    }
}

impl Settings {
    /// The files of an installation, in the order in which they are applied.
    fn files(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        MANIFESTS.into_iter().chain(self.guard.is_some().then_some(GUARD))
    }

    fn fill(&self, text: &str, lists: &GuardLists) -> String {
        let guard = self.guard.is_some().to_string();
        [
            ("${GUARD_USERS}", &lists.users),
            ("${GUARD_GROUPS}", &lists.groups),
            ("${GUARD}", &guard),
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
        let accounts = self.guard.iter();
        let users = accounts.clone().flat_map(|guard| &guard.users).map(|user| ("user of the guard", user));
        let groups = accounts.flat_map(|guard| &guard.groups).map(|group| ("group of the guard", group));
        let refused = |value: &str| {
            value.is_empty() || value.chars().any(|character| character.is_control() || "\"'\\{}$".contains(character))
        };
        match settings.into_iter().chain(named).chain(users).chain(groups).find(|(_, value)| refused(value)) {
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
    let lists = GuardLists::of(&settings.guard.clone().unwrap_or_default());
    let files = settings.files().map(|(_, text)| settings.fill(text, &lists));
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
    let lists = GuardLists::of(&settings.guard.clone().unwrap_or_default());
    files.extend(settings.files().map(|(name, text)| (name.to_owned(), settings.fill(text, &lists))));
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
    let mut values = format!(
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
    if let Some(accounts) = &settings.guard {
        let accounts = accounts.with_known();
        let list = |names: &[String]| names.iter().map(|name| format!("- \"{name}\"\n")).collect::<String>();
        values.push_str(&format!(
            "# Users that the guard lets pass, besides Stepgate.\nguardUsers:\n{}\
             # Groups that it lets pass.\nguardGroups:\n{}",
            list(&accounts.users),
            list(&accounts.groups)
        ));
    }
    let templated = Settings {
        namespace: "{{ .Release.Namespace }}".to_owned(),
        image: "{{ .Values.image }}".to_owned(),
        repository: "{{ .Values.repository }}".to_owned(),
        source_branch: "{{ .Values.sourceBranch }}".to_owned(),
        helm_image: "{{ .Values.helmImage }}".to_owned(),
        management_cluster: Some("{{ .Values.managementCluster }}".to_owned()),
        guard: settings.guard.clone(),
    };
    let mut files = vec![
        ("Chart.yaml".to_owned(), chart),
        ("values.yaml".to_owned(), values),
        (format!("crds/{DEFINITION}"), definition()?),
    ];
    // The namespace is Helm's: `--create-namespace`.
    let templates = settings.files().filter(|(name, _)| *name != "namespace.yaml");
    let lists = GuardLists::of_chart();
    files.extend(templates.map(|(name, text)| (format!("templates/{name}"), templated.fill(text, &lists))));
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
            guard: None,
        }
    }

    #[test]
    fn the_guard_is_in_every_form_with_those_who_pass_it() {
        let accounts = GuardAccounts { users: vec!["flux@corp".to_owned()], groups: vec!["platform".to_owned()] };
        let guarded = Settings { guard: Some(accounts), ..settings() };
        let text = manifests(&guarded).unwrap();
        assert!(text.contains("'system:serviceaccount:kube-system:namespace-controller'") && !text.contains("${"));
        assert!(text.contains("['system:serviceaccount:stepgate-system:stepgate'] + ['system:apiserver'"), "{text}");
        assert!(text.contains("'flux@corp']") && text.contains("'system:serviceaccounts:capv-system'"));
        assert!(text.contains("'platform']") && text.contains("- name: STEPGATE_GUARD\n          value: \"true\"\n"));
        let base = kustomize_base(&guarded).unwrap();
        assert!(base.iter().any(|(name, text)| name == "guard.yaml" && text.contains("'platform']")));
        let chart: Vec<_> = helm_chart(&guarded).unwrap();
        let file = |wanted: &str| chart.iter().find(|(name, _)| name == wanted).map(|(_, text)| text.as_str()).unwrap();
        let users = "['system:serviceaccount:{{ .Release.Namespace }}:stepgate'] + {{ .Values.guardUsers | default list | toJson }}";
        assert!(file("templates/guard.yaml").contains(users), "{}", file("templates/guard.yaml"));
        assert!(file("values.yaml").contains("- \"flux@corp\"\n") && file("values.yaml").contains("- \"platform\"\n"));
        let plain = manifests(&settings()).unwrap();
        assert!(
            !plain.contains("stepgate-guard") && plain.contains("- name: STEPGATE_GUARD\n          value: \"false\"\n")
        );
        let quoted = GuardAccounts { users: vec!["a'] + ['b".to_owned()], ..GuardAccounts::default() };
        assert!(manifests(&Settings { guard: Some(quoted), ..settings() }).is_err());
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
