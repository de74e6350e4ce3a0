//! Where secrets stand: in the files of a fleet, in variables, and in files of the machine.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Secrets;

fn cluster(name: &str, version: &str) -> String {
    format!(
        "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {{name: {name}, namespace: {name}}}\nspec:\n  \
         topology: {{class: web, version: {version}, controlPlane: {{replicas: 3}},\n    \
         workers: {{machineDeployments: [{{class: worker, name: blue, replicas: 2}}]}}}}\n"
    )
}

fn secret(name: &str, namespace: &str, content: &str) -> String {
    format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\n{content}\n")
}

/// A fleet of clusters with secrets in every place, before somebody changes it or afterwards.
pub fn fleet(
    secrets: &Secrets,
    version: &str,
    of: impl Fn([&'static str; 2]) -> &'static str,
) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut put = |path: &str, text: String| _ = files.insert(path.to_owned(), text.into_bytes());
    let at = |before, after| secrets.at(of([before, after]));
    let base64 = |before, after| secrets.base64(of([before, after]));

    let docker = format!(r#"{{"auths":{{"registry.example.com":{{"auth":"{}"}}}}}}"#, base64("docker", "new docker"));
    let applied = format!(r#"{{"stringData":{{"password":"{}"}}}}"#, at("last applied", "new last applied"));
    put(
        "clusters/shop/cluster.yaml",
        cluster("shop", version)
            + &secret("text", "shop", &format!("stringData: {{password: {}}}", at("text", "new text")))
            + &secret("data", "shop", &format!("data: {{token: {}}}", base64("data", "new data")))
            + &secret(
                "url",
                "shop",
                &format!("stringData: {{url: \"https://user:{}@example.com\"}}", at("url", "new url")),
            )
            + &secret(
                "docker",
                "shop",
                &format!(
                    "type: kubernetes.io/dockerconfigjson\ndata: {{.dockerconfigjson: {}}}",
                    STANDARD.encode(docker)
                ),
            )
            + &format!(
                "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: applied\n  namespace: shop\n  annotations:\n    \
                 kubectl.kubernetes.io/last-applied-configuration: '{applied}'\n"
            )
            + &format!(
                "---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n  metadata: {{name: listed, \
                 namespace: shop}}\n  stringData: {{password: {}}}\n",
                at("listed", "new listed")
            )
            + &secret(
                "multi-line",
                "shop",
                &format!(
                    "stringData:\n  key: |\n    -----BEGIN PRIVATE KEY-----\n    {}\n    -----END PRIVATE KEY-----",
                    at("private key", "new private key")
                ),
            ),
    );
    put(
        "clusters/shop/sops.yaml",
        secret(
            "locked",
            "shop",
            &format!(
                "stringData: {{password: \"ENC[AES256_GCM,data:{},iv:a,tag:b,type:str]\"}}\n\
                 sops: {{age: [{{recipient: age1, enc: a}}], mac: b, version: 3.9.0}}",
                at("sops data", "new sops data"),
            ),
        ),
    );
    put("stepgate.yaml", "flux: {decryption: {secret: sops-age}}\n".to_owned());
    // Made by kustomize.
    put("clusters/made/cluster.yaml", cluster("made", version) + &secret("patched", "made", "stringData: {a: b}"));
    put("clusters/made/file.txt", at("generated file", "new generated file"));
    put("clusters/made/file.env", format!("password={}\n", at("generated env", "new generated env")));
    put(
        "clusters/made/kustomization.yaml",
        format!(
            "namespace: made\nresources: [cluster.yaml]\nsecretGenerator:\n- {{name: a, literals: [password={}]}}\n\
             - {{name: b, files: [file.txt]}}\n- {{name: c, envs: [file.env]}}\npatches:\n- patch: |-\n    apiVersion: v1\n    \
             kind: Secret\n    metadata: {{name: patched, namespace: made}}\n    stringData: {{a: {}}}\n- target: {{kind: Secret, \
             name: patched}}\n  patch: '[{{\"op\": \"add\", \"path\": \"/stringData/b\", \"value\": \"{}\"}}]'\n",
            at("literal", "new literal"),
            at("merge patch", "new merge patch"),
            at("json patch", "new json patch")
        ),
    );
    // What cannot be rendered, each for another reason.
    for (name, line) in [
        ("remote", format!("resources: [cluster.yaml, \"https://user:{}@example.com/b\"]", secrets.at("remote base"))),
        ("query", format!("resources: [cluster.yaml, \"https://example.com/b?token={}\"]", secrets.at("remote query"))),
        ("component", format!("components: [\"https://{}@example.com/b\"]", secrets.at("remote component"))),
        ("patch", format!("patches: [{{path: \"https://u:{}@example.com/b\"}}]", secrets.at("remote patch"))),
        ("charts", format!("helmCharts: [{{name: c, repo: \"https://u:{}@example.com\"}}]", secrets.at("chart"))),
        ("literals", format!("secretGenerator: [{{name: s, literals: [{}]}}]", secrets.at("literal without a name"))),
        ("git", format!("resources: [\"git::https://{}@example.com/b.git//x\"]", secrets.at("git base"))),
        ("field", format!("secretGenerator: [{{name: s, password: {}}}]", secrets.at("unknown field"))),
        (
            "broken-patch",
            format!(
                "resources: [cluster.yaml]\npatches: [{{patch: \"kind: Secret\\nstringData: {{a: '{}\"}}]",
                secrets.at("broken patch")
            ),
        ),
    ] {
        put(&format!("clusters/{name}/cluster.yaml"), cluster(name, "v1.32.4"));
        put(&format!("clusters/{name}/kustomization.yaml"), line + "\n");
    }
    // What cannot be read.
    for (name, text) in [
        ("colon", format!("stringData:\n  other: {}: x", secrets.at("two colons"))),
        ("open", format!("stringData:\n  password: \"{}", secrets.at("open quote"))),
        ("twice", format!("stringData: {{password: {0}, password: {0}}}", secrets.at("twice"))),
        ("tab", format!("stringData:\n\tpassword: {}", secrets.at("tab"))),
        ("alias", format!("stringData: {{password: *{}}}", secrets.at("alias"))),
        ("tag", format!("stringData: {{password: !{} x}}", secrets.at("tag"))),
        ("key", format!("stringData: {{{}: [}}", secrets.at("key"))),
        ("directive", format!("stringData: {{a: b}}\n%{}", secrets.at("directive"))),
        ("escape", format!("stringData: {{a: \"\\q{}\"}}", secrets.at("escape"))),
    ] {
        put(&format!("clusters/{name}/cluster.yaml"), cluster(name, "v1.32.4") + &secret("s", name, &text));
    }
    put(
        "clusters/json/cluster.json",
        format!(r#"{{"apiVersion": "v1", "kind": "Secret", "stringData": {{"a": "{}" "#, secrets.at("broken json")),
    );
    // Flux.
    put(
        "flux/hub.yaml",
        format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {{name: flux-system, namespace: flux-system}}\n\
             spec: {{interval: 1m, url: \"https://user:{}@git.example.com/fleet?access_token={}\"}}\n---\n\
             apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: charts, namespace: flux-system}}\n\
             spec: {{interval: 1m, url: \"https://user:{}@charts.example.com\"}}\n---\n\
             apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {{name: images, namespace: flux-system}}\n\
             spec: {{interval: 1m, url: \"oci://{}@registry.example.com/x\"}}\n---\n\
             apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: values, namespace: flux-system}}\n\
             spec:\n  interval: 10m\n  path: ./clusters/values\n  prune: true\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n  \
             postBuild: {{substitute: {{PASSWORD: {}}}, substituteFrom: [{{kind: Secret, name: v}}]}}\n---\n\
             apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: blog, namespace: blog}}\nspec:\n  \
             chart: {{spec: {{chart: openstack-cluster, sourceRef: {{kind: HelmRepository, name: charts}}}}}}\n  values: {{password: {}}}\n",
            secrets.at("git source"),
            secrets.at("git source query"),
            secrets.at("chart source"),
            secrets.at("image source"),
            secrets.at("substitute"),
            secrets.at("release value"),
        ) + &secret("v", "flux-system", &format!("stringData: {{OTHER: {}}}", secrets.at("substitute from")))
            + &secret(
                "kubeconfig",
                "flux-system",
                &format!("data: {{value: {}}}", secrets.base64("kubeconfig of Flux")),
            ),
    );
    put(
        "clusters/values/cluster.yaml",
        cluster("values", version) + &secret("sub", "values", "stringData: {a: \"${PASSWORD}\", b: \"${OTHER}\"}"),
    );
    files
}

/// What the machine has: variables, and files that they name.
pub fn machine(secrets: &Secrets, folder: &Path) -> Vec<(&'static str, String)> {
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let key = |place| {
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n", secrets.at(place))
    };
    let kubeconfig = |user: String| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: shop\n\
             contexts: [{{name: shop, context: {{cluster: shop, user: shop}}}}]\n\
             clusters: [{{name: shop, cluster: {{server: \"https://user:{}@127.0.0.1:1\"}}}}]\n\
             users: [{{name: shop, user: {{{user}}}}}]\n",
            secrets.at("server"),
        )
    };
    let program = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, command: /nonexistent/program, args: [--token, {}], \
         env: [{{name: TOKEN, value: {}}}], interactiveMode: Never}}",
        secrets.at("argument of a program"),
        secrets.at("variable of a program"),
    );
    let users = [
        format!("token: {}", secrets.at("bearer token")),
        format!("username: u, password: {}", secrets.at("basic password")),
        format!("client-certificate-data: eA==, client-key-data: {}", secrets.base64("client key")),
        format!("auth-provider: {{name: oidc, config: {{id-token: {}}}}}", secrets.at("token of a provider")),
        program,
    ];
    for (number, user) in users.into_iter().enumerate() {
        file(&format!("kubeconfig-{number}"), kubeconfig(user));
    }
    vec![
        ("STEPGATE_KUBECONFIG", folder.join("kubeconfig-0").to_str().unwrap().to_owned()),
        ("STEPGATE_FORGE_TOKEN_FILE", file("forge-token", secrets.at("forge token"))),
        ("STEPGATE_WEBHOOK_SECRET_FILE", file("webhook", secrets.at("webhook"))),
        ("STEPGATE_WEB_TOKEN_FILE", file("web-token", secrets.at("web token"))),
        ("STEPGATE_WEB_SESSION_KEY_FILE", file("session", secrets.at("session key"))),
        ("STEPGATE_WEB_OIDC_SECRET_FILE", file("oidc", secrets.at("client secret"))),
        (
            "STEPGATE_SINKS",
            file(
                "sinks.yaml",
                format!("sinks: [{{name: a, url: \"https://h.example.com/{}\"}}]\n", secrets.at("sink")),
            ),
        ),
        ("HOME", folder.to_str().unwrap().to_owned()),
        ("DOCKER_CONFIG", {
            file(
                "docker/config.json",
                format!(r#"{{"auths":{{"r.example.com":{{"auth":"{}"}}}}}}"#, secrets.base64("docker login")),
            );
            folder.join("docker").to_str().unwrap().to_owned()
        }),
        ("AWS_SECRET_ACCESS_KEY", secrets.at("access key")),
        ("AWS_SESSION_TOKEN", secrets.at("session token")),
        ("GITHUB_TOKEN", secrets.at("token of a forge")),
        ("HTTPS_PROXY", format!("http://user:{}@127.0.0.1:1", secrets.at("proxy"))),
        ("GIT_SSH_COMMAND", format!("ssh -i {}", file(".ssh/id_ed25519", key("ssh key")))),
        ("UNUSED", file(".git-credentials", format!("https://user:{}@example.com\n", secrets.at("stored login")))),
        ("UNUSED", file(".netrc", format!("machine example.com login u password {}\n", secrets.at("netrc")))),
    ]
}
