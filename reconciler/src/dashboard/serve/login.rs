//! Logging in and out.

use axum::Router;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use axum::routing::get;
use jiff::Timestamp;
use serde::Deserialize;

use super::router::Dashboard;
use crate::dashboard::access::{RETURN, Refusal, Returned, log_out, login_over};
use crate::dashboard::pages;

/// What somebody logs in with.
#[derive(Debug, Deserialize)]
struct Token {
    token: String,
}

/// What is open to everybody.
pub(super) fn routes() -> Router<Dashboard> {
    Router::new()
        .route("/login", get(ask).post(log_in))
        // By a link, and not by a form: pages may send forms to this server alone.
        .route("/login/start", get(begin))
        .route(RETURN, get(end))
        .route("/logout", get(async || ([(header::SET_COOKIE, log_out())], Redirect::to("/login"))))
}

async fn ask(State(dashboard): State<Dashboard>) -> Response {
    let access = dashboard.access();
    if access.has_issuer() {
        return pages::login_elsewhere(None).into_response();
    }
    pages::login(None, access.asks_for()).into_response()
}

async fn begin(State(dashboard): State<Dashboard>) -> Response {
    match dashboard.access().begin_login(Timestamp::now()).await {
        Ok((address, cookie)) => ([(header::SET_COOKIE, cookie)], Redirect::to(&address)).into_response(),
        Err(refusal) => not_logged_in(refusal),
    }
}

async fn end(State(dashboard): State<Dashboard>, headers: HeaderMap, Query(returned): Query<Returned>) -> Response {
    let over = (header::SET_COOKIE, login_over());
    match dashboard.access().end_login(&headers, &returned, Timestamp::now()).await {
        Ok(cookie) => {
            // A page of our own leads on: browsers keep a strict cookie from a request that another site has led to.
            let cookies = AppendHeaders([(header::SET_COOKIE, cookie), over]);
            (cookies, [(header::REFRESH, "0; url=/")], pages::logged_in()).into_response()
        }
        Err(refusal) => (AppendHeaders([over]), not_logged_in(refusal)).into_response(),
    }
}

fn not_logged_in(refusal: Refusal) -> Response {
    let (status, told) = match refusal {
        Refusal::Unknown => (StatusCode::NOT_FOUND, "Nobody logs in over an issuer here.".to_owned()),
        Refusal::Denied(why) => (StatusCode::FORBIDDEN, why),
        Refusal::Unasked => (StatusCode::BAD_GATEWAY, "The issuer does not answer: try again.".to_owned()),
    };
    (status, pages::login_elsewhere(Some(&told))).into_response()
}

async fn log_in(State(dashboard): State<Dashboard>, Form(form): Form<Token>) -> Response {
    let access = dashboard.access();
    let (status, told) = match access.log_in(&form.token, Timestamp::now()).await {
        Ok(cookie) => return ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response(),
        Err(Refusal::Unknown) => (StatusCode::FORBIDDEN, "Nobody is known by this token.".to_owned()),
        Err(Refusal::Denied(why)) => (StatusCode::FORBIDDEN, why),
        Err(Refusal::Unasked) => {
            (StatusCode::SERVICE_UNAVAILABLE, "Whoever knows people does not answer: try again.".to_owned())
        }
    };
    (status, pages::login(Some(&told), access.asks_for())).into_response()
}
