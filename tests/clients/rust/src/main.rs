//! Makes the calls of the Rust client, one after the other, and prints an object a line for each: its name, what came
//! of it, and the value or the error. Their order matters.
//!
//! Arguments: URL of the admin API, URL of the binary protocol; others are ignored.

use std::future::Future;
use std::time::Duration;

use pulsar::message::proto::command_get_topics_of_namespace::Mode;
use pulsar::{ConnectionRetryOptions, Error, OperationRetryOptions, Pulsar, TokioExecutor};
use serde_json::{json, Value};

const LIMIT: Duration = Duration::from_secs(6);
const NAMESPACE: &str = "public/default";

async fn call<T>(name: &str, act: impl Future<Output = Result<T, Error>>, plain: impl Fn(T) -> Value) {
    let row = match tokio::time::timeout(LIMIT * 3, act).await {
        Ok(Ok(value)) => json!({"call": name, "outcome": "ok", "value": plain(value)}),
        Ok(Err(error)) => json!({"call": name, "outcome": kind(&error), "reason": error.to_string()}),
        Err(_) => json!({"call": name, "outcome": "no answer"}),
    };
    println!("{row}");
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Connection(_) => "Connection",
        Error::Consumer(_) => "Consumer",
        Error::Producer(_) => "Producer",
        Error::ServiceDiscovery(_) => "ServiceDiscovery",
        Error::Authentication(_) => "Authentication",
        _ => "other",
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(2).expect("a URL of the binary protocol");
    let client: Pulsar<_> = Pulsar::builder(url, TokioExecutor)
        .with_connection_retry_options(ConnectionRetryOptions {
            max_retries: 2,
            connection_timeout: LIMIT,
            ..Default::default()
        })
        .with_operation_retry_options(OperationRetryOptions {
            max_retries: Some(2),
            operation_timeout: LIMIT,
            ..Default::default()
        })
        .build()
        .await?;
    for local in ["plain", "größe-日本 a+b%c", "emoji-😀", "with space", "q?x=1"] {
        let topic = format!("persistent://{NAMESPACE}/{local}");
        call(&format!("lookup_topic {local}"), client.lookup_topic(topic.clone()), |found| {
            json!(found.broker_url.starts_with("127.0.0.1"))
        })
        .await;
        call(
            &format!("lookup_partitioned_topic_number {local}"),
            client.lookup_partitioned_topic_number(topic.clone()),
            |found| json!(found),
        )
        .await;
        call(&format!("lookup_partitioned_topic {local}"), client.lookup_partitioned_topic(topic), |found| {
            json!(found.len())
        })
        .await;
    }
    let missing = "persistent://nobody/never/t";
    call("lookup_topic(missing namespace)", client.lookup_topic(missing), |_| json!(true)).await;
    call(
        "get_topics_of_namespace",
        client.get_topics_of_namespace(NAMESPACE.to_string(), Mode::Persistent),
        |found| json!(found.iter().all(|topic| topic.starts_with("persistent://public/default/"))),
    )
    .await;
    call(
        "producer",
        client.producer().with_topic(format!("persistent://{NAMESPACE}/plain")).build(),
        |_| Value::Null,
    )
    .await;
    Ok(())
}
