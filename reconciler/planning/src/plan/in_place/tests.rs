use overlays::{Fleet, MemoryFiles};

use super::*;

fn fleet(text: &str) -> Fleet {
    let file = ("clusters/edge/cluster.yaml".parse().unwrap(), text.as_bytes().to_vec());
    overlays::read_fleet(&[file].into_iter().collect::<MemoryFiles>())
}

fn told(stage: &str, policy: &MachinePolicy, before: &str, after: &str) -> Outlook {
    let fleet = fleet(after);
    let cluster = fleet.clusters.iter().find(|cluster| cluster.name == "edge").expect("the cluster is read");
    let stage: StageId = stage.parse().unwrap();
    let objects = |text: &str| overlays::objects_of(text.as_bytes());
    let sides = Sides {
        cluster,
        stage: &stage.name,
        before: objects(before),
        after: objects(after),
        cluster_api: driver::cluster_api_of(&fleet, cluster),
        fleet: &fleet,
    };
    let machines = match &stage.name {
        StageName::ControlPlane => cluster.control_plane_count.unwrap_or_default(),
        _ => 2,
    };
    decide(&stage, policy, machines, sides.found(policy))
}

fn policy(strategy: Option<RolloutStrategy>, on_decline: OnDecline) -> MachinePolicy {
    MachinePolicy { strategy, on_decline, ..MachinePolicy::default() }
}

fn blocked(outlook: &Outlook) -> String {
    outlook.blocks.iter().map(|block| block.message.as_str()).collect::<Vec<_>>().join(" | ")
}

const CLUSTER_API: &str = "\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: edge, namespace: fleet}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: edge}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Cluster, name: edge}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: edge, namespace: fleet}
spec:
  replicas: 3
  version: v1.35.4
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}
  machineTemplate:
    metadata: {annotations: {inplace.stepgate.dev/on-decline: hold}}
    spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: plane-1}}
  kubeadmConfigSpec:
    clusterConfiguration: {etcd: {local: {imageTag: 3.6.6-0}}}
    files: [{path: /etc/hosts, content: a}]
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: blue, namespace: fleet}
spec:
  clusterName: edge
  replicas: 2
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}}
  template:
    metadata: {annotations: {inplace.stepgate.dev/on-decline: hold}}
    spec:
      clusterName: edge
      version: v1.35.4
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: blue}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: blue-1}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: in-place-upgraders, namespace: fleet}
data: {v1.36.1: 'registry.test/upgrader@sha256:0000000000000000000000000000000000000000000000000000000000000000 amd64'}
";

fn next() -> String {
    CLUSTER_API.replace("v1.35.4", "v1.36.1").replace("3.6.6-0", "3.6.8-0")
}

#[test]
fn machines_that_can_stay_are_told_in_place_with_their_one_way_doors() {
    let in_place = policy(Some(RolloutStrategy::InPlace), OnDecline::Hold);
    let plane = told("control-plane", &in_place, CLUSTER_API, &next());
    assert_eq!(blocked(&plane), "");
    let expected = [
        "3 machines stay, and are upgraded one after another; Cluster API asks for each by its hooks".to_owned(),
        format!(
            "with registry.test/upgrader@sha256:{}, by ConfigMap in-place-upgraders of namespace fleet, that people have \
             written",
            "0".repeat(64)
        ),
    ];
    assert_eq!(plane.reasons, expected.map(|text| format!("in place: {text}")));
    assert_eq!(plane.image.map(|planned| planned.object.name).as_deref(), Some("in-place-upgraders"));
    assert!(plane.one_way[0].starts_with("etcd goes to another image"), "{:?}", plane.one_way);
    let blue = told("workers/blue", &in_place, CLUSTER_API, &next());
    assert_eq!((blocked(&blue).as_str(), blue.reasons.len(), blue.one_way.len()), ("", 2, 0));
    // What is written besides is named.
    let vip = |text: &str, tag: &str| {
        let file = format!(
            "files: [{{path: /etc/kubernetes/manifests/kube-vip.yaml, content: 'kind: Pod\n\n      spec: {{containers: [{{image: vip:{tag}}}]}}'}}, {{path"
        );
        text.replace("files: [{path", &file)
    };
    let with_file = told("control-plane", &in_place, &vip(CLUSTER_API, "1"), &vip(&next(), "2"));
    assert_eq!(blocked(&with_file), "");
    assert_eq!(with_file.reasons[2], "in place: with /etc/kubernetes/manifests/kube-vip.yaml");
    // The specification alone is enough.
    let by_itself = told("control-plane", &MachinePolicy::default(), CLUSTER_API, &next());
    assert_eq!(by_itself.reasons, plane.reasons);
}

#[test]
fn a_decline_holds_the_stage_and_names_the_field_or_replaces_as_chosen() {
    let hold = policy(Some(RolloutStrategy::InPlace), OnDecline::Hold);
    for (stage, from, to, field) in [
        ("control-plane", "name: plane-1", "name: plane-2", "template of the infrastructure machine"),
        ("control-plane", "content: a", "content: b", "files[/etc/hosts] of the bootstrap configuration"),
        ("control-plane", "version: v1.36.1", "version: v1.37.0", "version of the machine"),
        ("control-plane", "maxSurge: 0}}}\n  machine", "maxSurge: 1}}}\n  machine", "maxSurge above 0"),
        ("control-plane", "rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}", "{}", "maxSurge"),
        ("control-plane", "replicas: 3", "replicas: 1", "in place from 3 on"),
        ("workers/blue", "maxUnavailable: 1", "maxUnavailable: 0", "maxUnavailable: 0"),
        ("workers/blue", "maxSurge: 0, max", "maxSurge: 25%, max", "maxSurge above 0"),
        (
            "workers/blue",
            "type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}",
            "type: OnDelete",
            "OnDelete",
        ),
        ("workers/blue", "name: blue-1", "name: blue-2", "infrastructure machine"),
    ] {
        let to = if to == "{}" { "paused: false" } else { to };
        let after = next().replace(from, to);
        assert_ne!(after, next(), "{from}");
        let held = told(stage, &hold, CLUSTER_API, &after);
        assert!(
            blocked(&held).contains(field) && blocked(&held).contains("would be replaced"),
            "{to}: {}",
            blocked(&held)
        );
        assert_eq!(held.blocks[0].stage.as_ref().map(ToString::to_string).as_deref(), Some(stage));
        let replace = policy(Some(RolloutStrategy::InPlace), OnDecline::Replace);
        let chosen = |text: &str| text.replace("on-decline: hold", "on-decline: replace");
        let replaced = told(stage, &replace, &chosen(CLUSTER_API), &chosen(&after));
        assert_eq!(blocked(&replaced), "");
        assert!(
            replaced.reasons[0].starts_with("replace because ") && replaced.reasons[0].contains(field),
            "{:?}",
            replaced.reasons
        );
    }
}

const TEMPLATES: &str = "\
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3MachineTemplate
metadata: {name: plane-1, namespace: fleet}
spec: {template: {spec: {image: {url: https://a.test/1}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3MachineTemplate
metadata: {name: plane-2, namespace: fleet}
spec: {template: {spec: {image: {url: https://a.test/1}}}}
";

#[test]
fn a_template_of_another_name_alone_keeps_machines_in_place() {
    let hold = policy(Some(RolloutStrategy::InPlace), OnDecline::Hold);
    let text = |text: &str| format!("{text}{TEMPLATES}");
    let renamed = next().replace("name: plane-1", "name: plane-2");
    assert_eq!(blocked(&told("control-plane", &hold, &text(CLUSTER_API), &text(&renamed))), "");
    let second = |from: &str, to: &str| {
        let (first, second) = TEMPLATES.rsplit_once("---").unwrap();
        format!("{renamed}{first}---{}", second.replace(from, to))
    };
    for (from, to, field) in [
        ("a.test/1", "a.test/2", "image.url of the infrastructure machine"),
        (
            "template: {spec",
            "template: {metadata: {labels: {rack: a}}, spec",
            "metadata.labels.rack of the infrastructure machine",
        ),
    ] {
        let held = told("control-plane", &hold, &text(CLUSTER_API), &second(from, to));
        assert!(blocked(&held).contains(field), "{}", blocked(&held));
    }
}

#[test]
fn without_an_upgrader_of_the_version_nothing_begins() {
    let in_place = policy(Some(RolloutStrategy::InPlace), OnDecline::Hold);
    for (from, to, says) in [
        ("data: {v1.36.1:", "data: {v1.36.0:", "has no upgrader image of v1.36.1"),
        ("name: in-place-upgraders", "name: others", "has no upgrader image of v1.36.1"),
        ("name: in-place-upgraders, namespace: fleet", "name: in-place-upgraders, namespace: b", "of namespace fleet"),
        ("registry.test/upgrader@sha256:0", "registry.test/upgrader@sha256:x", "is not a valid image"),
    ] {
        for stage in ["control-plane", "workers/blue"] {
            let after = next().replace(from, to);
            assert_ne!(after, next(), "{from}");
            let held = told(stage, &in_place, CLUSTER_API, &after);
            assert!(blocked(&held).contains(says), "{to}: {}", blocked(&held));
            assert_eq!(held.reasons, Vec::<String>::new(), "{to}");
            assert!(held.blocks[0].help.contains("stepgate upgrader build"), "{}", held.blocks[0].help);
        }
    }
}

#[test]
fn what_cluster_api_is_told_has_to_be_what_the_policy_says() {
    let in_place = policy(Some(RolloutStrategy::InPlace), OnDecline::Hold);
    for (annotation, says) in [
        ("a: b", "do not have inplace.stepgate.dev/on-decline: hold"),
        ("inplace.stepgate.dev/on-decline: replace", "says replace, and stepgate.yaml says onDecline: hold"),
        ("inplace.stepgate.dev/on-decline: maybe", "expected hold or replace"),
    ] {
        let after = next().replace("inplace.stepgate.dev/on-decline: hold", annotation);
        let outlook = told("control-plane", &in_place, CLUSTER_API, &after);
        assert!(blocked(&outlook).contains(says), "{}", blocked(&outlook));
        assert_eq!(outlook.reasons, Vec::<String>::new(), "{annotation}: held, and said to be done");
    }
    let rolling = told("control-plane", &policy(Some(RolloutStrategy::Rolling), OnDecline::Hold), CLUSTER_API, &next());
    assert!(blocked(&rolling).contains("says strategy: rolling"), "{}", blocked(&rolling));
}

#[test]
fn rolling_stays_the_default_and_says_nothing() {
    let plain = |text: &str| text.replace("inplace.stepgate.dev/on-decline: hold", "a: b");
    for strategy in [None, Some(RolloutStrategy::Rolling)] {
        let outlook = told("control-plane", &policy(strategy, OnDecline::Hold), &plain(CLUSTER_API), &plain(&next()));
        assert!(outlook.reasons.is_empty() && outlook.blocks.is_empty() && outlook.risks.is_empty());
    }
}

#[test]
fn a_single_machine_is_upgraded_by_the_controller_with_its_api_server_away() {
    let single = |text: &str| {
        text.replace("replicas: 3", "replicas: 1").replace(
            "kind: KubeadmControlPlane\nmetadata: {name: edge, namespace: fleet}",
            "kind: KubeadmControlPlane\nmetadata: {name: edge, namespace: fleet, annotations: {inplace.stepgate.dev/strategy: controller}}",
        )
    };
    let outlook = told("control-plane", &MachinePolicy::default(), &single(CLUSTER_API), &single(&next()));
    assert_eq!(blocked(&outlook), "");
    let by = "Stepgate's controller goes from one to the next while KubeadmControlPlane edge is paused";
    assert_eq!(outlook.reasons[0], format!("in place: 1 machine stays, and is upgraded; {by}"));
    assert!(outlook.risks[0].text.contains("API server is away"));
}

const EKS_ANYWHERE: &str = "\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata: {name: edge}
spec:
  kubernetesVersion: '1.33'
  managementCluster: {name: edge}
  datacenterRef: {kind: TinkerbellDatacenterConfig, name: edge}
  controlPlaneConfiguration: {count: 1, endpoint: {host: 10.0.0.1}, upgradeRolloutStrategy: {type: InPlace}, machineGroupRef: {kind: TinkerbellMachineConfig, name: plane}}
  workerNodeGroupConfigurations:
  - {name: blue, count: 2, upgradeRolloutStrategy: {type: InPlace}, machineGroupRef: {kind: TinkerbellMachineConfig, name: blue}}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: TinkerbellMachineConfig
metadata: {name: plane}
spec: {osFamily: ubuntu, osImageURL: https://images.example/a}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: TinkerbellMachineConfig
metadata: {name: blue}
spec: {osFamily: ubuntu, osImageURL: https://images.example/a}
";

#[test]
fn the_field_of_eks_anywhere_is_read_in_both_its_places() {
    let after = EKS_ANYWHERE.replace("'1.33'", "'1.34'");
    for stage in ["control-plane", "workers/blue"] {
        let outlook = told(stage, &MachinePolicy::default(), EKS_ANYWHERE, &after);
        assert_eq!(blocked(&outlook), "", "{stage}");
        assert!(outlook.reasons[0].starts_with("in place: "), "{:?}", outlook.reasons);
    }
    for (stage, from, to, says) in [
        (
            "control-plane",
            "name: plane}\nspec: {osFamily: ubuntu, osImageURL: https://images.example/a",
            "name: plane}\nspec: {osFamily: ubuntu, osImageURL: https://images.example/b",
            "osImageURL of the machine configuration",
        ),
        ("workers/blue", "count: 2,", "count: 2, labels: {a: b},", "labels differs"),
        ("workers/blue", "TinkerbellDatacenterConfig", "VSphereDatacenterConfig", "bare metal alone"),
        (
            "control-plane",
            "count: 2, upgradeRolloutStrategy: {type: InPlace}",
            "count: 2",
            "one upgradeRolloutStrategy",
        ),
    ] {
        let changed = after.replace(from, to);
        assert_ne!(changed, after, "{from}");
        let outlook = told(stage, &MachinePolicy::default(), EKS_ANYWHERE, &changed);
        assert!(blocked(&outlook).contains(says), "{to}: {}", blocked(&outlook));
    }
    let without = after.replace("upgradeRolloutStrategy: {type: InPlace}, ", "");
    let asked = told("control-plane", &policy(Some(RolloutStrategy::InPlace), OnDecline::Hold), EKS_ANYWHERE, &without);
    assert!(blocked(&asked).contains("upgradeRolloutStrategy.type is not InPlace"), "{}", blocked(&asked));
}

/// With `stepgate.yaml` beside it, and a bundle.
fn fleet_with(text: &str, policy: &str, section: Option<&str>) -> Fleet {
    let bundle = section.map(|section| {
        let text = format!(
            "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata: {{name: bundles-1}}\nspec:\n  \
             number: 1\n  versionsBundles:\n  - {section}\n"
        );
        ("bundles/bundles-1.yaml".parse().unwrap(), text.into_bytes())
    });
    let files = [("clusters/edge/cluster.yaml", text), ("stepgate.yaml", policy)];
    let files = files.map(|(path, text)| (path.parse().unwrap(), text.as_bytes().to_vec()));
    overlays::read_fleet(&files.into_iter().chain(bundle).collect::<MemoryFiles>())
}

/// With Cluster API of a bundle.
fn checked(text: &str, policy: &str, cluster_api: Option<&str>) -> Vec<String> {
    let section = cluster_api.map(|version| format!("{{kubeVersion: '1.35', clusterAPI: {{version: {version}}}}}"));
    let told = problems(&fleet_with(text, policy, section.as_deref()));
    told.iter().map(|problem| format!("{} ({})", problem.message, problem.hint.clone().unwrap_or_default())).collect()
}

#[test]
fn the_policy_and_the_bundle_name_the_image_of_a_release() {
    const RELEASE: &str = "v1.36.1-eks-1-36-9";
    const SECTION: &str = "{kubeVersion: '1.36', eksD: {name: kubernetes-1-36-eks-9, channel: 1-36, kubeVersion: v1.36.1, manifestUrl: https://a.test/e.yaml}}";
    let text = next().replace("v1.36.1", RELEASE);
    let (machines, own) = text.rsplit_once("---").unwrap();
    let policy = "bundle: newest\nupgraders: registry.test/node-upgrader\n";
    let found = |text: &str, policy: &str, section: &str| {
        let fleet = fleet_with(text, policy, Some(section));
        let (cluster, objects) = (fleet.cluster("edge").unwrap(), overlays::objects_of(text.as_bytes()));
        let wanted =
            upgrader::Wanted { namespace: "fleet", version: RELEASE, objects: &objects, cluster, fleet: &fleet };
        upgrader::of(&wanted)
    };
    let made = found(machines, policy, SECTION);
    assert_eq!(made.image.map(|planned| planned.image), Some(format!("registry.test/node-upgrader:{RELEASE}")));
    assert!(made.reason.unwrap().ends_with("made of bundles-1"));
    // What people have written is theirs, and says so.
    let by_people = found(&text, policy, SECTION);
    assert!(by_people.reason.unwrap().ends_with("that people have written"));
    for (text, policy, section, says, helps) in [
        (
            machines,
            policy,
            SECTION.replace("eks-9", "eks-8"),
            "bundles-1 names no EKS-D release",
            "--push registry.test/node-upgrader",
        ),
        (machines, "bundle: newest\n", SECTION.to_owned(), "has no upgrader image of", "`upgraders` in stepgate.yaml"),
        (
            &text.replace(&format!("{{{RELEASE}"), "{v1.36.0"),
            policy,
            SECTION.to_owned(),
            "has no upgrader image of",
            "add v1.36.1-eks-1-36-9: registry.test",
        ),
        (
            &format!("{machines}---{}", own.replace("registry.test/upgrader@sha256:0", "r@x")),
            policy,
            SECTION.to_owned(),
            "not a valid image",
            "--bundle bundles/bundles-1.yaml",
        ),
    ] {
        let missing = found(text, policy, &section).missing.unwrap();
        assert!(missing.message.contains(says) && missing.help.contains(helps), "{missing:?}");
        assert!(missing.help.contains("`stepgate upgrader build` with --release v1.36.1-eks-1-36-9"), "{missing:?}");
    }
}

const BY_CONTROLLER: &str = "kind: KubeadmControlPlane\nmetadata: {name: edge, namespace: fleet, annotations: {inplace.stepgate.dev/strategy: controller}}";
const PLANE: &str = "kind: KubeadmControlPlane\nmetadata: {name: edge, namespace: fleet}";

#[test]
fn what_cannot_be_driven_is_refused_before_anything_changes() {
    let in_place = "strategy: inPlace\n";
    assert_eq!(checked(CLUSTER_API, in_place, Some("v1.12.0+abc")), Vec::<String>::new());
    let by_controller = CLUSTER_API.replace(PLANE, BY_CONTROLLER);
    let single = |text: &str| text.replace("replicas: 3", "replicas: 1");
    let controller = "strategy: inPlace\nstages: {control-plane: {inPlace: {driver: controller}}}\n";
    assert_eq!(checked(&single(&by_controller), controller, None), Vec::<String>::new());
    for (text, policy, cluster_api, expected) in [
        (
            single(CLUSTER_API),
            "strategy: inPlace\ninPlace: {driver: hooks}\n",
            None,
            "has 1 machine: Cluster API upgrades in place from 3 on",
        ),
        (
            single(CLUSTER_API),
            "strategy: inPlace\ninPlace: {driver: hooks}\n",
            None,
            "(write driver: controller into stepgate.yaml",
        ),
        (single(CLUSTER_API), in_place, None, "with the annotation inplace.stepgate.dev/strategy: controller"),
        (CLUSTER_API.to_owned(), controller, None, "do not have inplace.stepgate.dev/strategy: controller"),
        (
            by_controller.clone(),
            "strategy: inPlace\ninPlace: {driver: hooks}\n",
            None,
            "says controller, and stepgate.yaml says driver: hooks",
        ),
        (
            by_controller.replace("strategy: controller", "strategy: contoller"),
            "",
            None,
            "says \"contoller\": expected hooks or controller",
        ),
        (
            by_controller.clone(),
            "strategy: inPlace\ninPlace: {onDecline: replace}\n",
            None,
            "onDecline: replace is not possible",
        ),
        (
            CLUSTER_API.to_owned(),
            "strategy: inPlace\nbundle: newest\n",
            Some("v1.11.4"),
            "Cluster API of the bundle is v1.11.4",
        ),
        (CLUSTER_API.to_owned(), "strategy: rolling\n", None, "says strategy: rolling"),
        (
            CLUSTER_API.replace("maxUnavailable: 1", "maxUnavailable: 0"),
            "",
            None,
            "workers/blue: machines would be replaced",
        ),
        (EKS_ANYWHERE.replace("Tinkerbell", "VSphere"), "", None, "bare metal alone"),
        (EKS_ANYWHERE.to_owned(), "inPlace: {driver: hooks}\n", None, "by its own controllers"),
    ] {
        let told = checked(&text, policy, cluster_api);
        assert!(told.iter().any(|told| told.contains(expected)), "{expected}: {told:#?}");
    }
}

#[test]
fn the_controller_replaces_nothing_whatever_the_policy_says() {
    let text = |text: &str| text.replace(PLANE, BY_CONTROLLER).replacen("on-decline: hold", "on-decline: replace", 1);
    let outlook = told("control-plane", &MachinePolicy::default(), &text(CLUSTER_API), &text(&next()));
    assert!(blocked(&outlook).contains("which replaces no machine"), "{}", blocked(&outlook));
}
