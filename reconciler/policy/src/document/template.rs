//! The commented `stepgate.yaml` that `stepgate init` writes.

/// A `stepgate.yaml` that sets nothing, with every field explained and its default shown.
pub fn commented_policy() -> String {
    TEXT.to_owned()
}

const TEXT: &str = r#"# yaml-language-server: $schema=stepgate.schema.json
# stepgate.yaml: how Stepgate carries the clusters of this repository from one version to the next.
# Every field may be left out; what stands here in comments is the default or an example.
# The most specific setting wins: fleet, fleet's stage, environment, environment's stage, cluster, cluster's stage.
# A push is judged by this file as it was before and as it is after: approvals, people, windows, pauses and what may be fetched by the stricter of both;
# where commits land and under whose name (deploy, apply, author, signing, forge) waits until whoever runs Stepgate confirms it (--trust-policy COMMIT).
apiVersion: stepgate.dev/v1alpha1
kind: Policy

# Where Stepgate writes. People write another branch; Flux watches this one.
# With a path, one branch may serve both: {branch: main, path: deploy}.
deploy:
  branch: deploy
  # path: deploy

# Who applies what is committed: flux, or direct (server-side apply by Stepgate).
# apply: flux

# What is asked of the signatures of Bundles and of the EKS-D releases that they name: off, warn, or require (one that is
# missing or does not fit blocks the rollout, and no waiver counts). A push cannot lower it by itself.
# signatures: warn

# With apply: direct, an object that is in git no longer is deleted. What holds data stays all the same (namespaces,
# CustomResourceDefinitions, volumes, objects of Cluster API and EKS Anywhere), unless it is named here:
# Kind/name or Kind/namespace/name, * for any text. Environments and clusters have their own.
# deleteData: [Namespace/old-system, "CustomResourceDefinition/*.old.example.com"]

# What checks find (`stepgate check --cluster NAME`) and the team lives with until the day named: reason and expires are needed.
# waivers:
#   - {check: nodes, object: Node/worker-7, reason: its disk is replaced, owner: storage, expires: 2026-12-31}

# What is no drift: fields (JSON pointers) of objects that others write, or whoever writes them. Environments and clusters have
# their own.
# drift: {ignore: [{object: Deployment/capi-system/*, paths: [/spec/replicas]}, {managers: [vpa-updater]}]}

# What has to be read, or done, before a component goes to a version, besides what Stepgate knows of its releases.
# notes:
#   - {name: images-1.35, component: kubernetes, from: "1.35", says: our images are of cgroup v1, remedy: build new ones, blocking: true}

# Sidecars that pods ask for, besides those of Vault, Istio and Linkerd: by an annotation or a label of a pod, or a label of
# its namespace. What runs without them after a rollout, and had them before, is named with the command that restarts it.
# injection:
#   - {name: datadog, labels: {admission.datadoghq.com/enabled: "true"}, containers: [datadog-agent]}

# Stop the line: true makes every rollout stand still where it is, a lease (reason, until, by) for a while. Clusters, environments and
# waves have their own.
# paused: false

# Which Bundles manifest clusters follow: newest, or a name such as bundles-81.
# Left out: the cluster's bundlesRef or eksaVersion, else the newest.
# bundle: newest

# Whether versions may go down.
# allowDowngrade: false

# Whether an upgrade of a cluster of EKS Anywhere over several minors goes through those in between, by a rollout each.
# chainedUpgrades: false

# Whether metadata.forceUpdateVersion of clusters of eksctl may override what EKS says against an upgrade.
# allowForcedUpdate: false

# Whether the control plane of a cluster of EKS may go back a minor: EKS takes it back for seven days.
# allowMinorRollback: false

# Whether Stepgate restarts what runs on old nodes of Fargate, one workload after another.
# restartFargate: false

# Pods that may be deleted past their budget while nodes of a worker group are drained: after how long, and how many in a
# rollout at most. Without it nothing is forced.
# forceDrain:
#   - {group: ng-shared, after: 30m, pods: 2}

# How a stage passes: healthy without a break for `soak`, within `timeout`.
# approval: none, rollout (once for the whole plan) or stage (for each stage).
# onFailure: hold, or revert (commits the stage's previous tree where that is safe, tried again `retries` times).
# onStaleMerge: the same for what was merged after the source branch had moved on.
# acceptEdits: whether what people change on a proposed branch, in manifests of a component, becomes what is proposed and approved.
# soak: 1m
# timeout: 30m
# estimate: 20m
# approval: none
# onFailure: hold
# onStaleMerge: hold
# retries: 0
# acceptEdits: false

# Whose approval is enough, where it is asked for; without this, one of anybody who can merge. As soon as any rule is written,
# who wrote a change may not approve it (author: true lets them). codeOwners hears one owner of each entry of the deploy
# branch's CODEOWNERS that owns a changed file; separate wants, for a stage without a way back, an approval of its own by
# somebody who approved no other stage of that rollout.
# approvers:
#   minimum: 2
#   groups: {platform: 1}
#   codeOwners: true
#   author: false
#   separate: true

# Who is who: users of the forge and addresses of commits. A team in CODEOWNERS is the group of the same name.
# groups:
#   platform: [alice, "Bob Bell <bob@example.com>"]
# people:
#   alice: [alice@example.com]

# The same settings by stage: preflight, backup, cert-manager, capi, eks-a, bundle, cilium-preflight, cilium, flux,
# etcd, addons, control-plane, workers (every group), workers/<group>, verify.
# stages:
#   control-plane:
#     soak: 5m
#     timeout: 2h
#     brakes: true           # no machine is drained before the newest is proven; default for a cluster that manages itself
#     lease: plndr-cp-lock   # says which node holds the address, where the specification does not tell
#     gate: whole            # first-node: the next stages begin when one new machine is proven; workload clusters alone
#     strategy: rolling      # inPlace: machines stay and are upgraded, where Cluster API asks Stepgate's extension
#     inPlace:
#       onDecline: hold      # replace: machines that cannot be upgraded in place are replaced
#       driver: hooks        # controller: Stepgate's controller goes from machine to machine, and not Cluster API

# When stages may begin. None: at any time. What has begun goes on to the end of its stage. Days are those on which a window
# opens, every one, or one of the month ("first tuesday", "last sunday"); `to` at or before `from` is on the next day.
# Times are those on the wall of timeZone (IANA name, UTC where it is left out), whenever its clocks change.
# With mustFit a stage begins only where it is over, `margin` before the window closes: by the 80th percentile of what it took in past rollouts,
# else by the `estimate` of the stage; where nobody knows, in the first half of the window.
# windows:
#   - days: [monday, tuesday, wednesday, thursday]
#     from: "09:00"
#     to: "16:00"
#     timeZone: Europe/Berlin
#     mustFit: true
#     margin: 15m
#   - days: [last sunday]
#     from: "22:00"
#     to: "04:00"
#     timeZone: America/New_York

# Days on which nothing begins, whatever window is open; levels add up. `except` names stages that begin all the same, or rollback.
# freezes:
#   - {from: 2026-11-25, to: 2026-11-30, timeZone: America/New_York, reason: busiest week, except: [rollback]}
#   - {from: 12-20, to: 01-06, timeZone: Europe/Berlin, reason: end of every year}

# Order of clusters: a wave begins when the one before is done. A management cluster goes before its workload clusters.
# How many go at once (a number or per cent), who goes first and alone, how many may fail before it stops, how long it has to be healthy
# afterwards, how long it may take, whom it goes without for a while, and who approves it as a whole, before or after it.
# waves:
#   - name: canary
#     clusters: [canary-*]
#     soak: 24h
#   - name: production
#     environments: [production]
#     concurrency: 25%
#     first: [prod-small]
#     maxFailures: 1
#     deadline: 14d
#     order: smallest
#     approval: after
#     approvers: {minimum: 1, groups: {}, author: true}
#     skip: [{cluster: prod-7, reason: its racks move, until: 2026-12-31, by: storage team}]

# Groups of clusters, by name or pattern, and what they have of their own.
# environments:
#   production:
#     clusters: [prod-*]
#     approval: rollout
#     onFailure: revert

# Single clusters and what they have of their own.
# clusters:
#   prod-berlin:
#     environment: production
#     bundle: bundles-80
#     allowDowngrade: true
#     workerOrder: [md-1, md-0]
#     # Free addresses of a cluster of EKS, where no process asks AWS.
#     addresses: {subnets: {subnet-0a1b: 120}, instanceTypes: {m5.large: {interfaces: 3, addresses: 10}}}
#     paused: true

# Files and folders that are not read for specifications. A name without / is meant at any depth, others from the top.
# ignore: [templates, "clusters/*/examples"]

# Mirrors to look manifests and charts up in by host and path of their address, after those that Stepgate was given without
# a name, and hosts (or host/path) that may be asked for the others: registries of charts too, and the hosts that these send
# on to. Whatever comes is checked against bundles.lock. Where a mirror is, Stepgate is told: --mirror central=DIR.
# mirrors: [central]
# These are the hosts of EKS Anywhere's releases, and those that GitHub and the registry send on to.
fetch:
  allow:
    - anywhere-assets.eks.amazonaws.com
    - distro.eks.amazonaws.com
    - github.com/fluxcd
    - release-assets.githubusercontent.com
    - public.ecr.aws/eks
    - d2glxqk2uabbnd.cloudfront.net

# Values for ${VAR} in provider manifests. No secrets here: this file is in git.
# variables:
#   EXP_MACHINE_POOL: "false"

# Secret objects of provider manifests that are filled from variables: omit (somebody else keeps them in the cluster) or
# render (the values then stand in git).
# providerSecrets: omit

# Where `stepgate upgrader build` puts the images that nodes are upgraded in place with.
# upgraders: registry.example.com/stepgate/node-upgrader

# Values merged over those that EKS Anywhere computes for Cilium's chart.
# cilium:
#   values:
#     hubble:
#       enabled: false

# Who the commits are by, and by which kind of key they are signed (ssh or gpg). The key is given to Stepgate itself
# (--signing-key), never to git.
# author:
#   name: Stepgate
#   email: stepgate@localhost
# signing:
#   format: ssh

# The Flux source that watches the deploy branch: kind GitRepository, or OCIRepository, whose artifacts have to name their commit
# (flux push artifact --revision).
# flux:
#   namespace: flux-system
#   source:
#     kind: GitRepository
#     name: flux-system
#   interval: 10m
#   decryption: {secret: sops-age}   # where specifications hold what is encrypted with SOPS

# Before its first commit a rollout saves the objects of Cluster API (--backups says where): how old such a backup may be when the rollout
# begins, how many of each cluster stay, the newest, and how old those may grow. The newest whole one always stays.
# backup:
#   maxAge: 24h
#   keep: 5
#   keepFor: 90d

# Where pull requests are opened for what people have to approve: kind gitea (Forgejo too), github or gitlab. The token is given to Stepgate
# itself (--forge-token-file), never to git. Without a forge, merging the proposed branch by git is the approval.
# forge:
#   kind: gitea
#   url: https://git.example.com
#   repository: platform/fleet

# Who is told of rollouts: upcoming, started, waiting (for people), held, done, rolled-back. `to` names a sink that whoever runs Stepgate has
# given it (--sinks DIR: Slack, Teams, mail, a webhook, Flux); its address and secrets are never in git. Of single stages only what is named is told.
# announce:
#   impact: {workers: "pods move once, one node after the other"}
#   routes:
#     - to: ops
#     - to: everybody
#       environments: [production]
#       rollout: [upcoming, started, done, rolled-back]
#       stages: {control-plane: [started, done]}
#       templates: {upcoming: "{cluster} is upgraded at {opens}: {impact}"}

# Which new versions Stepgate proposes as changes of this branch: bundles from the releases manifest, and Kubernetes minors that are named here, each
# in a pull request of its own. Which hosts may be asked is given to Stepgate itself (--update-host HOST), never to git. Never lower, never two
# minors at once, nothing that the plan refuses. Who closes a pull request is not asked again.
# updates:
#   releases: https://anywhere-assets.eks.amazonaws.com/releases/eks-a/manifest.yaml
#   follow: minor            # patch: no new minor of EKS Anywhere
#   minimumAge: 7d
#   ignore: [v0.26.0, "0.27"]
#   schedule: [{days: [tuesday], from: "09:00", to: "12:00", timeZone: Europe/Berlin}]
#   kubernetes: ["1.34"]     # clusters of EKS Anywhere
#   eks: ["1.34"]            # clusters of eksctl
"#;
