//! Reads of an API server, and how requests to it are built: every one with an error that says what was attempted.

use std::collections::BTreeMap;

use axum::http;
use kube::api::{GetParams, ListParams};
use kube::core::{ApiResource, DynamicObject, ObjectList, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::connection::Connection;
use super::error::RequestError;
use super::kind::Kind;

/// Objects on one page of a list.
const PAGE: u32 = 500;

/// Pages of a list that are read: 100,000 objects.
const MOST_PAGES: usize = 200;

/// The largest list that is read, all pages together.
const LARGEST_LIST: u64 = 512 << 20;

/// Name under which this program owns fields.
pub(crate) const FIELD_MANAGER: &str = "stepgate";

/// The versions of each API group that a server serves.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServedVersions(BTreeMap<String, Vec<String>>);

impl ServedVersions {
    /// These versions of these groups.
    #[cfg(test)]
    pub(crate) fn of(served: impl IntoIterator<Item = (&'static str, &'static str)>) -> Self {
        let served = served.into_iter();
        Self(served.map(|(group, version)| (group.to_owned(), vec![version.to_owned()])).collect())
    }

    /// The preferred version of a kind that is both understood here and served there.
    pub(crate) fn version_of(&self, kind: &Kind) -> Option<&'static str> {
        if kind.is_built_in() {
            return kind.versions.first().copied();
        }
        let served = self.0.get(kind.group)?;
        kind.versions.iter().copied().find(|version| served.iter().any(|known| known == version))
    }

    /// The versions in which a kind's group is served, where none of them is understood here.
    pub(crate) fn not_understood(&self, kind: &Kind) -> Option<String> {
        let served = self.0.get(kind.group).filter(|_| self.version_of(kind).is_none())?;
        Some(served.join(", "))
    }

    /// A group with the version that the server prefers; none where it is not served.
    pub(crate) fn api_version(&self, group: &str) -> Option<String> {
        self.0.get(group).and_then(|versions| versions.first()).map(|version| format!("{group}/{version}"))
    }

    /// A group with each of its versions, the preferred one first.
    pub(crate) fn api_versions(&self, group: &str) -> Vec<String> {
        self.0.get(group).into_iter().flatten().map(|version| format!("{group}/{version}")).collect()
    }

    /// Group and version of each group that `wanted` accepts, in the version that the server prefers.
    pub(crate) fn preferred(&self, wanted: fn(&str) -> bool) -> Vec<String> {
        let groups = self.0.iter().filter(|(group, _)| wanted(group));
        groups.filter_map(|(group, versions)| Some(format!("{group}/{}", versions.first()?))).collect()
    }
}

/// How a kind is addressed.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
}

/// Which objects of a list are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Selection<'a> {
    /// A label selector.
    pub(crate) labels: Option<&'a str>,
    /// A field selector.
    pub(crate) fields: Option<&'a str>,
    /// How many; none for all of them.
    pub(crate) at_most: Option<u32>,
    /// Whether who owns which fields is wanted, which is twice the size of most objects.
    pub(crate) managers: bool,
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<ResourceEntry>,
}

#[derive(Deserialize)]
struct ResourceEntry {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerVersion {
    git_version: String,
}

impl Connection {
    /// The server's version, such as `v1.34.1`: the cheapest answer that it gives.
    ///
    /// # Errors
    /// [`RequestError`] when it does not answer, or not to us.
    pub async fn version(&self) -> Result<String, RequestError> {
        let request = Request::new("/version").list(&ListParams::default());
        let version: ServerVersion = self.send("ask for the version", request).await?;
        Ok(version.git_version)
    }

    /// Whether the server has begun: until then it answers that there is none of a kind whose definition it has not read yet.
    /// One that knows no such path (servers that stand in for clusters) is taken for ready.
    ///
    /// # Errors
    /// [`RequestError`] when it is not ready, does not answer, or does not tell us.
    pub(crate) async fn ready(&self) -> Result<(), RequestError> {
        match self.text("/readyz", "get /readyz").await {
            Err(error) if !error.is_not_found() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Which versions are served.
    pub(crate) async fn served_versions(&self) -> Result<ServedVersions, RequestError> {
        let groups: Groups = self.send("list API groups", Request::new("/apis").list(&ListParams::default())).await?;
        let versions = |group: Group| (group.name, group.versions.into_iter().map(|served| served.version).collect());
        Ok(ServedVersions(groups.groups.into_iter().map(versions).collect()))
    }

    /// Every object of a kind, page by page. A kind that is not served has no objects.
    pub(crate) async fn list(
        &self,
        kind: &Kind,
        version: Option<&str>,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Vec<DynamicObject>, RequestError> {
        let Some(version) = version else { return Ok(Vec::new()) };
        let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        let attempt = format!("list {}{place}", kind.plural);
        let selection = Selection { labels, ..Selection::default() };
        self.list_resource(&kind.resource(version), namespace, selection, &attempt).await
    }

    /// Those objects of a kind that are selected, in every namespace. A kind that is not served has no objects.
    pub(crate) async fn list_selected(
        &self,
        kind: &Kind,
        version: Option<&str>,
        selection: Selection<'_>,
    ) -> Result<Vec<DynamicObject>, RequestError> {
        let Some(version) = version else { return Ok(Vec::new()) };
        let attempt = format!("list {}", kind.plural);
        self.list_resource(&kind.resource(version), None, selection, &attempt).await
    }

    pub(crate) async fn list_resource(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        selection: Selection<'_>,
        attempt: &str,
    ) -> Result<Vec<DynamicObject>, RequestError> {
        let Selection { labels, fields, at_most, managers } = selection;
        let request = within(resource, namespace).map_err(|error| self.unbuilt(attempt, error))?;
        let mut parameters = ListParams::default().limit(at_most.unwrap_or(PAGE));
        parameters.label_selector = labels.map(str::to_owned);
        parameters.field_selector = fields.map(str::to_owned);
        let mut objects = self.pages(attempt, parameters, at_most.is_none(), |page| request.list(page)).await?;
        for object in &mut objects {
            object.metadata.managed_fields.take_if(|_| !managers);
        }
        Ok(objects)
    }

    /// Name, generation and managers of every object of a kind, without what is in them.
    pub(crate) async fn list_all_metadata(&self, resource: &ApiResource) -> Result<Vec<DynamicObject>, RequestError> {
        let attempt = format!("list {}", resource.plural);
        let request = within(resource, None).map_err(|error| self.unbuilt(&attempt, error))?;
        self.pages(&attempt, ListParams::default().limit(PAGE), true, |page| request.list_metadata(page)).await
    }

    /// The objects of a list: of all its pages, or of the first one.
    async fn pages(
        &self,
        attempt: &str,
        mut parameters: ListParams,
        all: bool,
        request: impl Fn(&ListParams) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Vec<DynamicObject>, RequestError> {
        let (mut objects, mut bytes) = (Vec::new(), 0_u64);
        for _ in 0..MOST_PAGES {
            let page: ObjectList<DynamicObject> = match self.answer(attempt, request(&parameters)).await {
                Ok(answer) => {
                    bytes = bytes.saturating_add(answer.len() as u64);
                    if bytes > LARGEST_LIST {
                        return Err(self.too_long(attempt, format!("{} MiB", LARGEST_LIST >> 20)));
                    }
                    self.parse(attempt, &answer)?
                }
                // A kind that is served no more between two pages is not one of which there is nothing.
                Err(error) if error.is_not_found() && objects.is_empty() => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            objects.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty() && all) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(objects),
            }
        }
        Err(self.too_long(attempt, format!("{MOST_PAGES} pages")))
    }

    pub(super) fn too_long(&self, attempt: &str, limit: String) -> RequestError {
        RequestError::TooLong { attempt: attempt.to_owned(), server: self.server.clone(), limit }
    }

    /// One object; none where there is none, or where its kind is not served.
    pub(crate) async fn get(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<DynamicObject>, RequestError> {
        let attempt = format!("get {}", described(resource, namespace, name));
        let request = at(resource, namespace, name).and_then(|request| request.get(name, &GetParams::default()));
        self.send_if_there(&attempt, request).await
    }

    /// Name, generation and managers of one object, without what is in it; as [`Self::get`].
    pub(crate) async fn get_metadata(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<DynamicObject>, RequestError> {
        let attempt = format!("get {}", described(resource, namespace, name));
        let request = at(resource, namespace, name);
        let request = request.and_then(|request| request.get_metadata(name, &GetParams::default()));
        self.send_if_there(&attempt, request).await
    }

    /// Name, generation and managers of the objects of a kind in one namespace, without what is in them: the first page, and whether that is
    /// all of them. A server that does not list them tells nothing.
    pub(crate) async fn list_metadata(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<(Vec<DynamicObject>, bool), RequestError> {
        let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        let attempt = format!("list {}{place}", resource.plural);
        let request = within(resource, namespace);
        let request = request.and_then(|request| request.list_metadata(&ListParams::default().limit(PAGE)));
        let page: Option<ObjectList<DynamicObject>> = self.send_if_there(&attempt, request).await?;
        let Some(page) = page else { return Ok((Vec::new(), false)) };
        let is_all = page.metadata.continue_.is_none_or(|token| token.is_empty());
        Ok((page.items, is_all))
    }

    /// How a kind given by text is addressed; none where it is not served.
    pub(crate) async fn address(&self, api_version: &str, kind: &str) -> Result<Option<Address>, RequestError> {
        Ok(self.kinds(api_version).await?.into_iter().find(|known| known.resource.kind == kind))
    }

    /// How a kind given by its plural name is addressed; none where it is not served.
    pub(crate) async fn address_of_plural(
        &self,
        api_version: &str,
        plural: &str,
    ) -> Result<Option<Address>, RequestError> {
        let is_it = |known: &Address| known.resource.plural == plural;
        Ok(self.kinds_with(api_version, |kinds| kinds.iter().any(is_it)).await?.into_iter().find(is_it))
    }

    /// The kinds of a group and version whose objects can be listed; none where it is not served.
    pub(crate) async fn kinds(&self, api_version: &str) -> Result<Vec<Address>, RequestError> {
        let base = if api_version.contains('/') { "/apis" } else { "/api" };
        // The version is the last segment of the path, so that a name with a slash is not refused by the client.
        let (group, version) = match api_version.split_once('/') {
            Some((group, version)) => (Some(group), version),
            None => (None, api_version),
        };
        let base = group.map_or(base.to_owned(), |group| format!("{base}/{group}"));
        let request = group.map_or(Ok(()), segment).and_then(|()| segment(version));
        let request = request.and_then(|()| Request::new(base).get(version, &GetParams::default()));
        let resources: Resources = match self.send(&format!("list the kinds of {api_version}"), request).await {
            Ok(resources) => resources,
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let listed = |entry: &ResourceEntry| {
            // Subresources have a slash; some kinds can only be created.
            !entry.name.contains('/') && entry.verbs.iter().any(|verb| verb == "list")
        };
        let address = |entry: ResourceEntry| Address {
            resource: ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version: api_version.to_owned(),
                kind: entry.kind,
                plural: entry.name,
            },
            namespaced: entry.namespaced,
        };
        Ok(resources.resources.into_iter().filter(listed).map(address).collect())
    }

    /// What a path answers as a text.
    pub(crate) async fn text(&self, path: &str, attempt: &str) -> Result<String, RequestError> {
        let answer = self.answer(attempt, Request::new(path).list(&ListParams::default())).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// What a text says that is JSON.
    pub(crate) fn parsed<T: DeserializeOwned>(&self, attempt: &str, text: &str) -> Result<T, RequestError> {
        self.parse(attempt, text.as_bytes())
    }

    /// Sends a request for something that may be absent.
    async fn send_if_there<T: DeserializeOwned>(
        &self,
        attempt: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Option<T>, RequestError> {
        match self.send(attempt, request).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Requests to the resource, in one namespace or in all.
///
/// # Errors
/// When the namespace can be none: it comes from a file of the repository, and could lead to another path.
pub(super) fn within(resource: &ApiResource, namespace: Option<&str>) -> Result<Request, kube::core::request::Error> {
    namespace.map_or(Ok(()), segment)?;
    let base = if resource.group.is_empty() { "/api" } else { "/apis" };
    let namespace = namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    Ok(Request::new(format!("{base}/{}/{namespace}{}", resource.api_version, resource.plural)))
}

/// Requests to the resource, of which one concerns the object of this name.
///
/// # Errors
/// As [`within`], for the name too.
pub(super) fn at(
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
) -> Result<Request, kube::core::request::Error> {
    segment(name)?;
    within(resource, namespace)
}

/// Whether a name is one segment of a path, as the API server asks of names (`IsValidPathSegmentName`).
fn segment(name: &str) -> Result<(), kube::core::request::Error> {
    let is_part = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'%' | b'?' | b'#' | b'\\');
    if !name.is_empty() && !matches!(name, "." | "..") && name.bytes().all(is_part) {
        return Ok(());
    }
    let name: String = name.chars().take(100).collect();
    Err(kube::core::request::Error::Validation(format!("{name:?} is no name in the API of Kubernetes")))
}

/// `Kind namespace/name`.
pub(crate) fn described(resource: &ApiResource, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{} {namespace}/{name}", resource.kind),
        None => format!("{} {name}", resource.kind),
    }
}
