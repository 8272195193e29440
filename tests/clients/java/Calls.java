import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.impl.PulsarClientImpl;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.AutoFailoverPolicyData;
import org.apache.pulsar.common.policies.data.AutoFailoverPolicyType;
import org.apache.pulsar.common.policies.data.BundlesData;
import org.apache.pulsar.common.policies.data.ClusterData;
import org.apache.pulsar.common.policies.data.FailureDomain;
import org.apache.pulsar.common.policies.data.NamespaceIsolationData;
import org.apache.pulsar.common.policies.data.ResourceQuota;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.TenantInfo;

/**
 * Makes the calls of PulsarAdmin and of the Java client, one after the other, and prints an object a
 * line for each: its name, what came of it, and the value or the error. Their order matters.
 *
 * <p>Arguments: URL of the admin API, URL of the binary protocol, name of the cluster, broker ids.
 */
public class Calls {
    private static final int LIMIT_S = 6;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TENANT = "calls";
    private static final String NS = TENANT + "/ns";
    private static final String RETAINED = TENANT + "/kept";

    private final PrintStream out;
    private final PulsarAdmin admin;
    private final String web;
    private final String binary;
    private final String cluster;
    private final List<String> brokers;

    Calls(PrintStream out, String web, String binary, String cluster, List<String> brokers)
            throws Exception {
        this.out = out;
        this.web = web;
        this.binary = binary;
        this.cluster = cluster;
        this.brokers = brokers;
        this.admin =
                PulsarAdmin.builder()
                        .serviceHttpUrl(web)
                        .connectionTimeout(LIMIT_S, TimeUnit.SECONDS)
                        .readTimeout(30, TimeUnit.SECONDS)
                        .requestTimeout(30, TimeUnit.SECONDS)
                        .build();
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Its libraries write to standard output, too.
        System.setOut(System.err);
        Configurator.setRootLevel(Level.OFF);
        List<String> all = List.of(arguments);
        Calls calls = new Calls(out, all.get(0), all.get(1), all.get(2), all.subList(3, all.size()));
        calls.clusters();
        calls.tenants();
        calls.brokers();
        calls.namespaces();
        calls.isolation();
        calls.topics();
        calls.bundles();
        calls.lookups();
        calls.statistics();
        calls.client("pulsar://", calls.binary);
        calls.client("http://", calls.web);
        calls.ends();
        System.exit(0);
    }

    private interface Act {
        void run() throws Exception;
    }

    private void does(String name, Act act) {
        call(
                name,
                () -> {
                    act.run();
                    return null;
                });
    }

    private void call(String name, Callable<Object> act) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("call", name);
        try {
            Object value = act.call();
            row.put("outcome", "ok");
            row.put("value", plain(value));
        } catch (Throwable met) {
            Throwable cause = shownCause(met);
            row.put("outcome", cause.getClass().getSimpleName());
            if (cause instanceof PulsarAdminException) {
                row.put("status", ((PulsarAdminException) cause).getStatusCode());
            }
            row.put("reason", String.valueOf(cause.getMessage()));
        }
        try {
            out.println(JSON.writeValueAsString(row));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** The innermost error that is Pulsar's own. */
    private static Throwable shownCause(Throwable met) {
        Throwable found = met;
        for (Throwable one = met; one != null; one = one.getCause()) {
            if (one instanceof PulsarAdminException || one instanceof PulsarClientException) {
                found = one;
            }
        }
        return found;
    }

    private static Object plain(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return value;
        }
        if (value instanceof Set) {
            TreeSet<String> sorted = new TreeSet<>();
            ((Collection<?>) value).forEach(one -> sorted.add(String.valueOf(one)));
            return new ArrayList<>(sorted);
        }
        if (value instanceof String || value instanceof InetSocketAddress) {
            return String.valueOf(value);
        }
        try {
            return JSON.readValue(JSON.writeValueAsString(value), Object.class);
        } catch (Exception error) {
            return String.valueOf(value);
        }
    }

    private void clusters() {
        ClusterData data =
                ClusterData.builder()
                        .serviceUrl("http://elsewhere.example:8080")
                        .brokerServiceUrl("pulsar://elsewhere.example:6650")
                        .build();
        call("clusters.getClusters", () -> admin.clusters().getClusters());
        call("clusters.getCluster", () -> admin.clusters().getCluster(cluster).getServiceUrl() != null);
        call("clusters.getPeerClusterNames", () -> admin.clusters().getPeerClusterNames(cluster));
        does("clusters.createCluster", () -> admin.clusters().createCluster("other", data));
        does("clusters.updateCluster", () -> admin.clusters().updateCluster("other", data));
        does("clusters.deleteCluster", () -> admin.clusters().deleteCluster("other"));
        call("clusters.getCluster(missing)", () -> admin.clusters().getCluster("other"));
        Set<String> here = Set.of(brokers.get(0));
        FailureDomain domain = FailureDomain.builder().brokers(here).build();
        does("clusters.createFailureDomain", () -> admin.clusters().createFailureDomain(cluster, "d", domain));
        call("clusters.getFailureDomain", () -> admin.clusters().getFailureDomain(cluster, "d").getBrokers().size());
        call("clusters.getFailureDomains", () -> admin.clusters().getFailureDomains(cluster).keySet());
        does("clusters.deleteFailureDomain", () -> admin.clusters().deleteFailureDomain(cluster, "d"));
    }

    private void tenants() {
        TenantInfo info = TenantInfo.builder().allowedClusters(Set.of(cluster)).build();
        call("tenants.getTenants", () -> admin.tenants().getTenants().contains("public"));
        does("tenants.createTenant", () -> admin.tenants().createTenant(TENANT, info));
        does("tenants.createTenant(again)", () -> admin.tenants().createTenant(TENANT, info));
        call("tenants.getTenantInfo", () -> admin.tenants().getTenantInfo(TENANT).getAllowedClusters());
        does("tenants.updateTenant", () -> admin.tenants().updateTenant(TENANT, info));
        call("tenants.getTenantInfo(missing)", () -> admin.tenants().getTenantInfo("nobody"));
    }

    private void brokers() {
        String grace = "loadBalancerSheddingGracePeriodMinutes";
        call("brokers.getActiveBrokers", () -> admin.brokers().getActiveBrokers(cluster).size());
        call("brokers.getActiveBrokers(other)", () -> admin.brokers().getActiveBrokers("other").size());
        call("brokers.getLeaderBroker", () -> admin.brokers().getLeaderBroker().getServiceUrl() != null);
        call("brokers.getOwnedNamespaces", () -> admin.brokers().getOwnedNamespaces(cluster, brokers.get(0)) != null);
        does("brokers.updateDynamicConfiguration", () -> admin.brokers().updateDynamicConfiguration(grace, "30"));
        call("brokers.getAllDynamicConfigurations", () -> admin.brokers().getAllDynamicConfigurations().get(grace));
        does("brokers.updateDynamicConfiguration(bad value)", () -> admin.brokers().updateDynamicConfiguration(grace, "lots"));
        does("brokers.updateDynamicConfiguration(unknown)", () -> admin.brokers().updateDynamicConfiguration("noSuchSetting", "1"));
        does("brokers.deleteDynamicConfiguration", () -> admin.brokers().deleteDynamicConfiguration(grace));
        call("brokers.getDynamicConfigurationNames", () -> admin.brokers().getDynamicConfigurationNames().contains(grace));
        call("brokers.getInternalConfigurationData", () -> admin.brokers().getInternalConfigurationData().getMetadataStoreUrl() != null);
        call("brokers.getVersion", () -> admin.brokers().getVersion().length() > 0);
        does("brokers.backlogQuotaCheck", () -> admin.brokers().backlogQuotaCheck());
        does("brokers.healthcheck(V2)", () -> admin.brokers().healthcheck(org.apache.pulsar.common.naming.TopicVersion.V2));
    }

    private void namespaces() {
        call("namespaces.getNamespaces(no tenant)", () -> admin.namespaces().getNamespaces("nobody"));
        does("namespaces.createNamespace", () -> admin.namespaces().createNamespace(NS, 4));
        does("namespaces.createNamespace(again)", () -> admin.namespaces().createNamespace(NS, 4));
        does("namespaces.createNamespace(0 bundles)", () -> admin.namespaces().createNamespace(TENANT + "/zero", 0));
        does("namespaces.createNamespace(other tenant)", () -> admin.namespaces().createNamespace("nobody/ns"));
        does("namespaces.createNamespace(foreign cluster)", () -> admin.namespaces().createNamespace(TENANT + "/far", Set.of("elsewhere")));
        does("namespaces.createNamespace(default)", () -> admin.namespaces().createNamespace(RETAINED));
        call("namespaces.getNamespaces", () -> admin.namespaces().getNamespaces(TENANT).contains(NS));
        call("namespaces.getBundles", () -> admin.namespaces().getBundles(NS).getBoundaries());
        call("namespaces.getTopics", () -> admin.namespaces().getTopics(NS));
        call("namespaces.getTopics(missing)", () -> admin.namespaces().getTopics(TENANT + "/never"));
        call("namespaces.getPolicies", () -> admin.namespaces().getPolicies(NS).bundles.getNumBundles());
        call("namespaces.getNamespaceReplicationClusters", () -> admin.namespaces().getNamespaceReplicationClusters(NS));
        does("namespaces.setNamespaceReplicationClusters", () -> admin.namespaces().setNamespaceReplicationClusters(NS, Set.of(cluster)));
        does("namespaces.setRetention", () -> admin.namespaces().setRetention(RETAINED, new RetentionPolicies(10, 10)));
        call("namespaces.getRetention", () -> admin.namespaces().getRetention(RETAINED).getRetentionTimeInMinutes());
        does("namespaces.setNamespaceMessageTTL", () -> admin.namespaces().setNamespaceMessageTTL(RETAINED, 60));
        call("namespaces.getPermissions", () -> admin.namespaces().getPermissions(NS));
        does("namespaces.setNamespaceAntiAffinityGroup", () -> admin.namespaces().setNamespaceAntiAffinityGroup(NS, "group"));
        call("namespaces.getNamespaceAntiAffinityGroup", () -> admin.namespaces().getNamespaceAntiAffinityGroup(NS));
        call("namespaces.getAntiAffinityNamespaces", () -> admin.namespaces().getAntiAffinityNamespaces(TENANT, cluster, "group"));
        does("namespaces.setNamespaceAntiAffinityGroup(utf8)", () -> admin.namespaces().setNamespaceAntiAffinityGroup(NS, "gruppe-ä"));
        call("namespaces.getAntiAffinityNamespaces(utf8)", () -> admin.namespaces().getAntiAffinityNamespaces(TENANT, cluster, "gruppe-ä"));
        does("namespaces.deleteNamespaceAntiAffinityGroup", () -> admin.namespaces().deleteNamespaceAntiAffinityGroup(NS));
    }

    private void isolation() {
        AutoFailoverPolicyData failover =
                AutoFailoverPolicyData.builder()
                        .policyType(AutoFailoverPolicyType.min_available)
                        .parameters(Map.of("min_limit", "1", "usage_threshold", "80"))
                        .build();
        NamespaceIsolationData data =
                NamespaceIsolationData.builder()
                        .namespaces(List.of(TENANT + "/iso.*"))
                        .primary(List.of("127.0.0.1.*"))
                        .secondary(List.of("10.*"))
                        .autoFailoverPolicy(failover)
                        .build();
        does("clusters.createNamespaceIsolationPolicy", () -> admin.clusters().createNamespaceIsolationPolicy(cluster, "p", data));
        call("clusters.getNamespaceIsolationPolicies", () -> admin.clusters().getNamespaceIsolationPolicies(cluster).keySet());
        call("clusters.getNamespaceIsolationPolicy", () -> admin.clusters().getNamespaceIsolationPolicy(cluster, "p").getPrimary());
        call("clusters.getBrokersWithNamespaceIsolationPolicy", () -> admin.clusters().getBrokersWithNamespaceIsolationPolicy(cluster).size());
        does("clusters.deleteNamespaceIsolationPolicy", () -> admin.clusters().deleteNamespaceIsolationPolicy(cluster, "p"));
        does("clusters.deleteNamespaceIsolationPolicy(missing)", () -> admin.clusters().deleteNamespaceIsolationPolicy(cluster, "p"));
    }

    private void topics() {
        String parts = topic("parts"), props = topic("props"), single = topic("single");
        does("topics.createPartitionedTopic", () -> admin.topics().createPartitionedTopic(parts, 4));
        does("topics.createPartitionedTopic(properties)", () -> admin.topics().createPartitionedTopic(props, 2, Map.of("k", "v")));
        does("topics.createNonPartitionedTopic", () -> admin.topics().createNonPartitionedTopic(single));
        call("topics.getPartitionedTopicMetadata", () -> admin.topics().getPartitionedTopicMetadata(parts).partitions);
        call("topics.getPartitionedTopicMetadata(missing)", () -> admin.topics().getPartitionedTopicMetadata(topic("never")).partitions);
        does("topics.updatePartitionedTopic", () -> admin.topics().updatePartitionedTopic(parts, 6));
        call("topics.getPartitionedTopicList", () -> new TreeSet<>(admin.topics().getPartitionedTopicList(NS)));
        call("topics.getList", () -> new TreeSet<>(admin.topics().getList(NS)));
        call("topics.getList(non-persistent)", () -> admin.topics().getList(NS, org.apache.pulsar.common.naming.TopicDomain.non_persistent));
        call("topics.getListInBundle", () -> admin.topics().getListInBundle(NS, "0x00000000_0x40000000"));
        call("topics.getStats(single)", () -> admin.topics().getStats(single) != null);
        call("topics.getPartitionedStats", () -> admin.topics().getPartitionedStats(parts, false) != null);
        call("topics.getInternalStats", () -> admin.topics().getInternalStats(single) != null);
        call("topics.getSubscriptions", () -> admin.topics().getSubscriptions(single));
        call("topics.getProperties", () -> admin.topics().getProperties(props));
        does("topics.unload(not loaded)", () -> admin.topics().unload(single));
        does("topics.unload(partitioned)", () -> admin.topics().unload(parts));
    }

    private void bundles() {
        String first = "0x00000000_0x40000000", last = "0xc0000000_0xffffffff";
        call("lookups.lookupTopic(first)", () -> admin.lookups().lookupTopic(topic("single")) != null);
        does("namespaces.splitNamespaceBundle", () -> admin.namespaces().splitNamespaceBundle(NS, first, false, null));
        call("namespaces.getBundles(split)", () -> admin.namespaces().getBundles(NS).getBoundaries());
        does("namespaces.splitNamespaceBundle(missing)", () -> admin.namespaces().splitNamespaceBundle(NS, "0x11111111_0x22222222", false, null));
        does("namespaces.unloadNamespaceBundle", () -> admin.namespaces().unloadNamespaceBundle(NS, last));
        does("namespaces.unloadNamespaceBundle(dest dead)", () -> admin.namespaces().unloadNamespaceBundle(NS, last, "nobody:1234"));
        does("namespaces.unload", () -> admin.namespaces().unload(NS));
        ResourceQuota quota = new ResourceQuota();
        quota.setMsgRateIn(7);
        does("resourceQuotas.setNamespaceBundleResourceQuota", () -> admin.resourceQuotas().setNamespaceBundleResourceQuota(NS, last, quota));
        call("resourceQuotas.getNamespaceBundleResourceQuota", () -> admin.resourceQuotas().getNamespaceBundleResourceQuota(NS, last).getMsgRateIn());
        does("resourceQuotas.resetNamespaceBundleResourceQuota", () -> admin.resourceQuotas().resetNamespaceBundleResourceQuota(NS, last));
        call("resourceQuotas.getDefaultResourceQuota", () -> admin.resourceQuotas().getDefaultResourceQuota().getMsgRateIn());
        does("namespaces.clearNamespaceBacklog", () -> admin.namespaces().clearNamespaceBacklog(NS));
    }

    private void lookups() {
        for (String local : List.of("plain", "a/b", "größe-日本 a+b%c", "emoji-😀", "with space")) {
            call("lookups.lookupTopic " + local, () -> admin.lookups().lookupTopic(topic(local)).startsWith("pulsar://"));
            call("lookups.getBundleRange " + local, () -> admin.lookups().getBundleRange(topic(local)));
        }
        call("lookups.lookupPartitionedTopic", () -> admin.lookups().lookupPartitionedTopic(topic("parts")).size());
        call("lookups.lookupTopic(no namespace)", () -> admin.lookups().lookupTopic("persistent://" + TENANT + "/never/t"));
    }

    private void statistics() {
        call("brokerStats.getTopics", () -> admin.brokerStats().getTopics() != null);
        call("brokerStats.getLoadReport", () -> admin.brokerStats().getLoadReport() != null);
        call("brokerStats.getMetrics", () -> admin.brokerStats().getMetrics() != null);
        call("brokerStats.getMBeans", () -> admin.brokerStats().getMBeans() != null);
        call("brokerStats.getAllocatorStats", () -> admin.brokerStats().getAllocatorStats("default") != null);
        call("brokerStats.getPendingBookieOpsStats", () -> admin.brokerStats().getPendingBookieOpsStats() != null);
    }

    private void client(String scheme, String url) throws Exception {
        String who = "client " + scheme + " ";
        try (PulsarClient client =
                PulsarClient.builder()
                        .serviceUrl(url)
                        .operationTimeout(LIMIT_S, TimeUnit.SECONDS)
                        .lookupTimeout(LIMIT_S, TimeUnit.SECONDS)
                        .connectionTimeout(LIMIT_S, TimeUnit.SECONDS)
                        .build()) {
            for (String local : List.of("plain", "a/b", "größe-日本 a+b%c")) {
                call(who + "getBroker " + local, () -> ((PulsarClientImpl) client).getLookup().getBroker(TopicName.get(topic(local))).get(LIMIT_S, TimeUnit.SECONDS) != null);
                call(who + "partitions " + local, () -> client.getPartitionsForTopic(topic(local)).get(LIMIT_S, TimeUnit.SECONDS).size());
            }
            call(who + "partitions parts", () -> client.getPartitionsForTopic(topic("parts")).get(LIMIT_S, TimeUnit.SECONDS).size());
            does(who + "newProducer", () -> client.newProducer().topic(topic("plain")).create().close());
            does(who + "newReader", () -> client.newReader().topic(topic("plain")).startMessageId(MessageId.earliest).create().close());
        }
    }

    private void ends() {
        does("topics.delete(plain)", () -> admin.topics().delete(topic("single"), true));
        does("topics.deletePartitionedTopic", () -> admin.topics().deletePartitionedTopic(topic("parts"), true));
        does("topics.deletePartitionedTopic(missing)", () -> admin.topics().deletePartitionedTopic(topic("never")));
        does("namespaces.deleteNamespace", () -> admin.namespaces().deleteNamespace(RETAINED, true));
        does("namespaces.deleteNamespace(missing)", () -> admin.namespaces().deleteNamespace(TENANT + "/never"));
        does("tenants.deleteTenant(not empty)", () -> admin.tenants().deleteTenant(TENANT));
    }

    private static String topic(String local) {
        return "persistent://" + NS + "/" + local;
    }
}
