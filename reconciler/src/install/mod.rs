//! What Stepgate is installed with in a management cluster: one set of manifests, as files for `kubectl`, a kustomize base and a Helm chart.
//!
//! `tests/tests/servers/installation/whole.rs` runs the program under the installed identity
//! through a whole rollout: no request is refused, and all that is granted is made use of.

mod monitoring;

use std::borrow::Cow;

use cluster::kubernetes::rollout_definition;

use self::monitoring::Reader;

pub use self::monitoring::RUNBOOKS;

/// The manifests, in the order in which they are applied. `${…}` stands for what differs from one installation to another.
const MANIFESTS: [(&str, &str); 9] = [
    ("namespace.yaml", include_str!("../../install/namespace.yaml")),
    ("service-account.yaml", include_str!("../../install/service-account.yaml")),
    ("cluster-role.yaml", include_str!("../../install/cluster-role.yaml")),
    ("cluster-role-probe.yaml", include_str!("../../install/cluster-role-probe.yaml")),
    ("admission-policy.yaml", include_str!("../../install/admission-policy.yaml")),
    ("role.yaml", include_str!("../../install/role.yaml")),
    ("bindings.yaml", include_str!("../../install/bindings.yaml")),
    ("network-policy.yaml", include_str!("../../install/network-policy.yaml")),
    ("deployment.yaml", include_str!("../../install/deployment.yaml")),
];

/// What refuses changes by others, where it is wanted.
const GUARD: (&str, &str) = ("guard.yaml", include_str!("../../install/guard.yaml"));

/// What upgrades machines in place, where it is wanted.
const IN_PLACE: (&str, &str) = ("in-place.yaml", include_str!("../../install/in-place.yaml"));

/// The kinds that it makes.
const IN_PLACE_DEFINITIONS: (&str, &str) =
    ("in-place-definitions.yaml", include_str!("../../install/in-place-definitions.yaml"));

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
    /// The namespaces whose pull secrets are used to ask registries for images.
    pub pull_secrets: Vec<String>,
    /// Whether the guard is installed, and who passes it besides those that it knows.
    pub guard: Option<GuardAccounts>,
    /// Whether what upgrades machines in place is installed, and who makes its certificate.
    pub in_place: Option<CertificateMaker>,
    /// Whether Prometheus and Grafana are told of it, and where the entries of the alerts are: a URL
    /// or a path.
    pub runbooks: Option<String>,
}

/// Who makes the certificate of the extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum CertificateMaker {
    /// cert-manager, which the cluster has.
    #[default]
    CertManager,
    /// The extension itself.
    Stepgate,
}

impl CertificateMaker {
    /// What differs in the extension's Deployment: a variable of its environment, and where the certificate lies.
    fn deployment(self) -> (&'static str, &'static str) {
        match self {
            Self::CertManager => ("", "secret:\n          secretName: stepgate-extension-tls"),
            Self::Stepgate => (OWN_CERTIFICATE, "emptyDir:\n          medium: Memory"),
        }
    }

    fn file(self) -> (&'static str, &'static str) {
        match self {
            Self::CertManager => {
                ("in-place-cert-manager.yaml", include_str!("../../install/in-place-cert-manager.yaml"))
            }
            Self::Stepgate => ("in-place-certificate.yaml", include_str!("../../install/in-place-certificate.yaml")),
        }
    }
}

/// Which Secret the extension keeps, and for which names.
const OWN_CERTIFICATE: &str = "- name: STEPGATE_EXTENSION_TLS_SECRET
          value: \"${NAMESPACE}/stepgate-extension-tls\"
        - name: STEPGATE_EXTENSION_TLS_NAMES
          value: \"stepgate-extension.${NAMESPACE}.svc,stepgate-extension.${NAMESPACE}.svc.cluster.local\"
        - name: STEPGATE_EXTENSION_WEBHOOK
          value: stepgate-extension";

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
    fn files(&self, reader: Reader) -> impl Iterator<Item = (&'static str, Cow<'static, str>)> + use<> {
        let in_place = self.in_place.into_iter().flat_map(|maker| [maker.file(), IN_PLACE_DEFINITIONS, IN_PLACE]);
        let fixed = MANIFESTS.into_iter().chain(self.guard.is_some().then_some(GUARD)).chain(in_place);
        let monitoring =
            self.runbooks.is_some().then(|| ("monitoring.yaml", Cow::Owned(monitoring::manifests(reader))));
        fixed.map(|(name, text)| (name, Cow::Borrowed(text))).chain(monitoring)
    }

    fn fill(&self, text: &str, lists: &GuardLists) -> String {
        let (guard, pull_secrets) = (self.guard.is_some().to_string(), self.pull_secrets.join(","));
        let (certificate, volume) = self.in_place.unwrap_or_default().deployment();
        let line = |text: &str| if text.is_empty() { String::new() } else { format!("        {text}\n") };
        let (variables, port) =
            if self.runbooks.is_some() { (monitoring::VARIABLES, monitoring::PORT) } else { ("", "") };
        [
            ("        ${TLS_SECRET}\n", &line(certificate)),
            ("        ${METRICS_VARIABLES}\n", &line(variables)),
            ("        ${METRICS_PORT}\n", &line(port)),
            ("${RUNBOOKS}", self.runbooks.as_ref().unwrap_or(&String::new())),
            ("${TLS_VOLUME}", &volume.to_owned()),
            ("${GUARD_USERS}", &lists.users),
            ("${GUARD_GROUPS}", &lists.groups),
            ("${GUARD}", &guard),
            ("${PULL_SECRETS}", &pull_secrets),
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
        let named = named.chain(self.pull_secrets.iter().map(|namespace| ("namespace with pull secrets", namespace)));
        let accounts = self.guard.iter();
        let users = accounts.clone().flat_map(|guard| &guard.users).map(|user| ("user of the guard", user));
        let groups = accounts.flat_map(|guard| &guard.groups).map(|group| ("group of the guard", group));
        let runbooks = self.runbooks.iter().map(|runbooks| ("place of the alerts' entries", runbooks));
        let refused = |value: &str| {
            value.is_empty() || value.chars().any(|character| character.is_control() || "\"'\\{}$".contains(character))
        };
        match settings
            .into_iter()
            .chain(named)
            .chain(users)
            .chain(groups)
            .chain(runbooks)
            .find(|(_, value)| refused(value))
        {
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
    let files = settings.files(Reader::Kubernetes).map(|(_, text)| settings.fill(&text, &lists));
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
    let filled = settings.files(Reader::Kubernetes).map(|(name, text)| (name.to_owned(), settings.fill(&text, &lists)));
    files.extend(filled);
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
         managementCluster: \"{}\"\n\
         # Namespaces whose pull secrets are used to ask registries for images, with commas between them.\n\
         pullSecrets: \"{}\"\n",
        settings.image,
        settings.repository,
        settings.source_branch,
        settings.helm_image,
        settings.management_cluster.as_deref().unwrap_or_default(),
        settings.pull_secrets.join(",")
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
        pull_secrets: vec!["{{ .Values.pullSecrets }}".to_owned()],
        guard: settings.guard.clone(),
        in_place: settings.in_place,
        runbooks: settings.runbooks.clone(),
    };
    let mut files = vec![
        ("Chart.yaml".to_owned(), chart),
        ("values.yaml".to_owned(), values),
        (format!("crds/{DEFINITION}"), definition()?),
    ];
    // The namespace is Helm's: `--create-namespace`.
    let templates = settings.files(Reader::Helm).filter(|(name, _)| *name != "namespace.yaml");
    let lists = GuardLists::of_chart();
    files.extend(templates.map(|(name, text)| (format!("templates/{name}"), templated.fill(&text, &lists))));
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
            pull_secrets: Vec::new(),
            guard: None,
            in_place: None,
            runbooks: None,
        }
    }

    #[test]
    fn the_extension_is_in_every_form_where_it_is_asked_for() {
        let with = Settings { in_place: Some(CertificateMaker::CertManager), ..settings() };
        let (text, base, chart) =
            (manifests(&with).unwrap(), kustomize_base(&with).unwrap(), helm_chart(&with).unwrap());
        let secret = "inject-ca-from-secret: stepgate-system/stepgate-extension-tls\n";
        assert!(text.contains(secret) && text.contains("replicas: 2\n") && !text.contains("${"), "{text}");
        assert!(base.iter().any(|(name, text)| name == "in-place.yaml" && text.contains(secret)));
        let templated = "inject-ca-from-secret: {{ .Release.Namespace }}/stepgate-extension-tls\n";
        assert!(chart.iter().any(|(name, text)| name == "templates/in-place.yaml" && text.contains(templated)));
        assert!(!manifests(&settings()).unwrap().contains("ExtensionConfig"));
        assert!(text.contains("kind: Issuer") && text.contains("secretName: stepgate-extension-tls"), "{text}");
        let own = Settings { in_place: Some(CertificateMaker::Stepgate), ..settings() };
        let text = manifests(&own).unwrap();
        assert!(text.contains(secret) && text.contains("medium: Memory") && !text.contains("${"), "{text}");
        assert!(!text.contains("kind: Issuer") && !text.contains("secretName: stepgate-extension-tls"), "{text}");
        let variable = "STEPGATE_EXTENSION_TLS_SECRET\n          value: \"stepgate-system/stepgate-extension-tls\"\n";
        assert!(text.contains(variable), "{text}");
        let webhook = "resources: [mutatingwebhookconfigurations]\n  resourceNames: [stepgate-extension]\n  verbs: [get, patch]\n";
        let named = "STEPGATE_EXTENSION_WEBHOOK\n          value: stepgate-extension\n";
        assert!(text.contains(webhook) && text.contains(named), "{text}");
    }

    #[test]
    fn pull_secrets_are_used_where_their_namespaces_are_named() {
        let with = Settings { pull_secrets: vec!["a".to_owned(), "b".to_owned()], ..settings() };
        let named = |value: &str| format!("- name: STEPGATE_PULL_SECRETS\n          value: \"{value}\"\n");
        assert!(manifests(&with).unwrap().contains(&named("a,b")));
        assert!(manifests(&settings()).unwrap().contains(&named("")));
        let chart = helm_chart(&with).unwrap();
        assert!(chart.iter().any(|(name, text)| name == "values.yaml" && text.contains("pullSecrets: \"a,b\"\n")));
        assert!(chart.iter().any(|(_, text)| text.contains(&named("{{ .Values.pullSecrets }}"))));
        let refused = Settings { pull_secrets: vec!["a\"".to_owned()], ..settings() };
        assert!(manifests(&refused).unwrap_err().to_string().starts_with("the namespace with pull secrets"));
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
    fn prometheus_and_grafana_are_told_in_every_form_where_it_is_asked_for() {
        let with = Settings { runbooks: Some("https://docs.example/stepgate".to_owned()), ..settings() };
        let (text, base, chart) =
            (manifests(&with).unwrap(), kustomize_base(&with).unwrap(), helm_chart(&with).unwrap());
        let entry = "runbook_url: \"https://docs.example/stepgate#stepgateheld\"\n";
        assert!(text.contains(entry) && text.contains("is held at stage {{ $labels.stage }}\""), "{text}");
        assert!(!text.contains("${") && !text.contains("[["), "{text}");
        assert!(text.contains("- name: metrics\n          containerPort: 8080\n"), "{text}");
        assert!(text.contains("STEPGATE_METRICS_AUTHENTICATION\n          value: kubernetes\n"), "{text}");
        assert!(base.iter().any(|(name, text)| name == "monitoring.yaml" && text.contains(entry)));
        let (_, template) = chart.iter().find(|(name, _)| name == "templates/monitoring.yaml").unwrap();
        assert!(template.contains("stage {{ \"{{\" }} $labels.stage {{ \"}}\" }}\""), "{template}");
        let plain = manifests(&settings()).unwrap();
        assert!(!plain.contains("PodMonitor") && !plain.contains("- name: metrics\n") && !plain.contains("${"));
        let refused = Settings { runbooks: Some("a\"b".to_owned()), ..settings() };
        assert!(manifests(&refused).unwrap_err().to_string().starts_with("the place of the alerts' entries"));
    }

    #[test]
    fn a_setting_cannot_break_out_of_its_place() {
        for image in ["", "a\"\nkind: x", "{{ .Values }}", "a\nb", "${NAMESPACE}"] {
            let settings = Settings { image: image.to_owned(), ..settings() };
            assert!(manifests(&settings).is_err(), "{image}");
        }
    }
}
