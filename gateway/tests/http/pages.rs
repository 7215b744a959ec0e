//! The pages as the router hands them out; what is in them is tested with the pages.

use crate::support::Gateway;

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_html_and_so_are_their_errors_for_people() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let lower = code.to_lowercase();
    for path in [
        "/",
        "/new",
        &format!("/{code}"),
        &format!("/{lower}/"),
        &format!("/{code}/stage"),
        &format!("/{code}/host"),
    ] {
        let reply = gateway.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(
            reply.header("content-type").starts_with("text/html"),
            "{path}"
        );
    }
    for path in [
        "/NOROOM24",
        "/NOROOM24/stage",
        "/favicon.ico",
        "/some/where/else",
    ] {
        let person = gateway
            .call("GET", path)
            .header("accept", "text/html,*/*;q=0.8")
            .send()
            .await;
        assert_eq!(person.status, 404, "{path}");
        assert!(
            person.header("content-type").starts_with("text/html"),
            "{path}"
        );
        let program = gateway
            .call("GET", path)
            .header("accept", "application/json")
            .send()
            .await;
        assert_eq!(
            (program.status, program.header("content-type")),
            (404, "application/problem+json"),
            "{path}"
        );
    }
    let api = gateway
        .call("GET", "/v1/rooms/NOROOM24")
        .header("accept", "text/html")
        .send()
        .await;
    api.problem(404, "unknown-room");
}
