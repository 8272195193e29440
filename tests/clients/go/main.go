// Makes the calls of the Go admin library and of the Go client, one after the other, and prints an object a line for
// each: its name, what came of it, and the value or the error. Their order matters.
//
// Arguments: URL of the admin API, URL of the binary protocol, name of the cluster, broker ids.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/rest"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
	"github.com/sirupsen/logrus"
)

const (
	limit  = 6 * time.Second
	tenant = "gocalls"
	ns     = tenant + "/ns"
)

type row struct {
	Call    string `json:"call"`
	Outcome string `json:"outcome"`
	Status  int    `json:"status,omitempty"`
	Value   any    `json:"value,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

func call(name string, act func() (any, error)) {
	value, err := act()
	found := row{Call: name, Outcome: "ok", Value: value}
	if err != nil {
		found = row{Call: name, Outcome: "error", Reason: err.Error()}
		var refused rest.Error
		if errors.As(err, &refused) {
			found.Outcome, found.Status = "rest.Error", refused.Code
		}
	}
	line, err := json.Marshal(found)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func does(name string, act func() error) {
	call(name, func() (any, error) { return nil, act() })
}

// Whether there is a value: what it says differs between two clusters.
func has[T any](value T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return true, nil
}

func sorted(values []string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	ordered := append([]string{}, values...)
	sort.Strings(ordered)
	return ordered, nil
}

func topic(local string) utils.TopicName {
	name, err := utils.GetTopicName("persistent://" + ns + "/" + local)
	if err != nil {
		panic(err)
	}
	return *name
}

func main() {
	web, binary, cluster, brokers := os.Args[1], os.Args[2], os.Args[3], os.Args[4:]
	admin, err := pulsaradmin.NewClient(&pulsaradmin.Config{WebServiceURL: web})
	if err != nil {
		panic(err)
	}
	clustersAndTenants(admin, cluster, brokers)
	theBrokers(admin, cluster, brokers)
	namespaces(admin, cluster)
	isolation(admin, cluster, brokers)
	topics(admin)
	bundles(admin)
	client("pulsar", binary)
	client("http", web)
	ends(admin)
}

func clustersAndTenants(admin pulsaradmin.Client, cluster string, brokers []string) {
	other := utils.ClusterData{Name: "goother", ServiceURL: "http://elsewhere.example:8080"}
	call("Clusters.List", func() (any, error) { return has(admin.Clusters().List()) })
	call("Clusters.Get", func() (any, error) { return has(admin.Clusters().Get(cluster)) })
	does("Clusters.Create", func() error { return admin.Clusters().Create(other) })
	does("Clusters.Update", func() error { return admin.Clusters().Update(other) })
	does("Clusters.Delete", func() error { return admin.Clusters().Delete("goother") })
	domain := utils.FailureDomainData{ClusterName: cluster, DomainName: "gd", BrokerList: brokers[:1]}
	does("Clusters.CreateFailureDomain", func() error { return admin.Clusters().CreateFailureDomain(domain) })
	call("Clusters.GetFailureDomain", func() (any, error) { return has(admin.Clusters().GetFailureDomain(cluster, "gd")) })
	does("Clusters.DeleteFailureDomain", func() error { return admin.Clusters().DeleteFailureDomain(domain) })
	info := utils.TenantData{Name: tenant, AdminRoles: []string{}, AllowedClusters: []string{cluster}}
	call("Tenants.List", func() (any, error) { return has(admin.Tenants().List()) })
	does("Tenants.Create", func() error { return admin.Tenants().Create(info) })
	does("Tenants.Create(again)", func() error { return admin.Tenants().Create(info) })
	call("Tenants.Get", func() (any, error) { return admin.Tenants().Get(tenant) })
	does("Tenants.Update", func() error { return admin.Tenants().Update(info) })
}

func theBrokers(admin pulsaradmin.Client, cluster string, brokers []string) {
	const grace = "loadBalancerSheddingGracePeriodMinutes"
	call("Brokers.GetActiveBrokers", func() (any, error) { return has(admin.Brokers().GetActiveBrokers(cluster)) })
	call("Brokers.GetOwnedNamespaces", func() (any, error) { return has(admin.Brokers().GetOwnedNamespaces(cluster, brokers[0])) })
	call("Brokers.GetLeaderBroker", func() (any, error) { return has(admin.Brokers().GetLeaderBroker()) })
	does("Brokers.UpdateDynamicConfiguration", func() error { return admin.Brokers().UpdateDynamicConfiguration(grace, "30") })
	call("Brokers.GetAllDynamicConfigurations", func() (any, error) { return admin.Brokers().GetAllDynamicConfigurations() })
	does("Brokers.DeleteDynamicConfiguration", func() error { return admin.Brokers().DeleteDynamicConfiguration(grace) })
	call("Brokers.GetInternalConfigurationData", func() (any, error) { return has(admin.Brokers().GetInternalConfigurationData()) })
	does("Brokers.HealthCheck", func() error { return admin.Brokers().HealthCheckWithTopicVersion(utils.TopicVersionV2) })
}

func namespaces(admin pulsaradmin.Client, cluster string) {
	all := admin.Namespaces()
	name, err := utils.GetNamespaceName(ns)
	if err != nil {
		panic(err)
	}
	does("Namespaces.CreateNamespace(no tenant)", func() error { return all.CreateNamespace("gonobody/ns") })
	does("Namespaces.CreateNamespace", func() error { return all.CreateNamespace(ns) })
	does("Namespaces.CreateNamespace(again)", func() error { return all.CreateNamespace(ns) })
	does("Namespaces.CreateNamespace(to delete)", func() error { return all.CreateNamespace(tenant + "/gone") })
	does("Namespaces.CreateNsWithNumBundles", func() error { return all.CreateNsWithNumBundles(tenant+"/numbered", 4) })
	does("Namespaces.CreateNsWithBundlesData", func() error {
		data := utils.NewBundlesData([]string{"0x00000000", "0x80000000", "0xffffffff"})
		return all.CreateNsWithBundlesData(tenant+"/bounds", &data)
	})
	call("Namespaces.GetNamespaces", func() (any, error) { return has(all.GetNamespaces(tenant)) })
	call("Namespaces.GetPolicies", func() (any, error) {
		found, err := all.GetPolicies(ns)
		if err != nil {
			return nil, err
		}
		return found.Bundles, nil
	})
	call("Namespaces.GetTopics", func() (any, error) { return sorted(all.GetTopics(ns)) })
	call("Namespaces.GetNamespaceReplicationClusters", func() (any, error) { return all.GetNamespaceReplicationClusters(ns) })
	does("Namespaces.SetRetention", func() error { return all.SetRetention(ns, utils.NewRetentionPolicies(10, 10)) })
	does("Namespaces.SetNamespaceAntiAffinityGroup", func() error { return all.SetNamespaceAntiAffinityGroup(ns, "ggrp") })
	call("Namespaces.GetNamespaceAntiAffinityGroup", func() (any, error) { return all.GetNamespaceAntiAffinityGroup(ns) })
	call("Namespaces.GetAntiAffinityNamespaces", func() (any, error) { return all.GetAntiAffinityNamespaces(tenant, cluster, "ggrp") })
	does("Namespaces.DeleteNamespaceAntiAffinityGroup", func() error { return all.DeleteNamespaceAntiAffinityGroup(ns) })
	call("Namespaces.GetNamespacePermissions", func() (any, error) { return all.GetNamespacePermissions(*name) })
}

func isolation(admin pulsaradmin.Client, cluster string, brokers []string) {
	data := utils.NamespaceIsolationData{
		Namespaces: []string{tenant + "/iso.*"},
		Primary:    []string{"127.0.0.1.*"},
		Secondary:  []string{"10.*"},
		AutoFailoverPolicy: utils.AutoFailoverPolicyData{
			PolicyType: utils.MinAvailable,
			Parameters: map[string]string{"min_limit": "1", "usage_threshold": "80"},
		},
	}
	policies := admin.NsIsolationPolicy()
	does("NsIsolation.Create", func() error { return policies.CreateNamespaceIsolationPolicy(cluster, "gpol", data) })
	call("NsIsolation.Get", func() (any, error) { return policies.GetNamespaceIsolationPolicy(cluster, "gpol") })
	call("NsIsolation.GetAll", func() (any, error) { return policies.GetNamespaceIsolationPolicies(cluster) })
	call("NsIsolation.Brokers", func() (any, error) { return has(policies.GetBrokersWithNamespaceIsolationPolicy(cluster)) })
	call("NsIsolation.Broker", func() (any, error) { return has(policies.GetBrokerWithNamespaceIsolationPolicy(cluster, brokers[0])) })
	does("NsIsolation.Delete", func() error { return policies.DeleteNamespaceIsolationPolicy(cluster, "gpol") })
}

func topics(admin pulsaradmin.Client) {
	all := admin.Topics()
	name, err := utils.GetNamespaceName(ns)
	if err != nil {
		panic(err)
	}
	unicode := topic("größe-日本 a b")
	does("Topics.Create(partitioned)", func() error { return all.Create(topic("pt"), 4) })
	does("Topics.Create(0 = non-partitioned)", func() error { return all.Create(topic("single"), 0) })
	does("Topics.CreateWithProperties", func() error { return all.CreateWithProperties(topic("ptp"), 2, map[string]string{"k": "v"}) })
	does("Topics.Create(unicode)", func() error { return all.Create(unicode, 2) })
	call("Topics.GetMetadata", func() (any, error) { return all.GetMetadata(topic("pt")) })
	call("Topics.GetMetadata(unicode)", func() (any, error) { return all.GetMetadata(unicode) })
	call("Topics.GetMetadata(missing)", func() (any, error) { return all.GetMetadata(topic("never")) })
	does("Topics.Update", func() error { return all.Update(topic("pt"), 6) })
	call("Topics.List", func() (any, error) {
		partitioned, _, err := all.List(*name)
		return sorted(partitioned, err)
	})
	for _, local := range []string{"plain", "emoji-😀", "with space", "plus+plus"} {
		call("Topics.Lookup "+local, func() (any, error) { return has(all.Lookup(topic(local))) })
		call("Topics.GetBundleRange "+local, func() (any, error) { return all.GetBundleRange(topic(local)) })
	}
	does("Topics.Unload(never loaded)", func() error { return all.Unload(topic("nobody-loaded")) })
	call("Topics.GetStats(missing)", func() (any, error) { return has(all.GetStats(topic("never"))) })
}

func bundles(admin pulsaradmin.Client) {
	all, quotas := admin.Namespaces(), admin.ResourceQuotas()
	const last = "0xc0000000_0xffffffff"
	does("Namespaces.SplitNamespaceBundle", func() error { return all.SplitNamespaceBundle(ns, "0x00000000_0x40000000", false) })
	does("Namespaces.UnloadNamespaceBundle", func() error { return all.UnloadNamespaceBundle(ns, last) })
	does("Namespaces.Unload", func() error { return all.Unload(ns) })
	call("ResourceQuotas.GetDefault", func() (any, error) { return quotas.GetDefaultResourceQuota() })
	does("ResourceQuotas.SetBundle", func() error {
		return quotas.SetNamespaceBundleResourceQuota(ns, last, utils.ResourceQuota{MsgRateIn: 4, Dynamic: true})
	})
	call("ResourceQuotas.GetBundle", func() (any, error) { return quotas.GetNamespaceBundleResourceQuota(ns, last) })
	does("ResourceQuotas.ResetBundle", func() error { return quotas.ResetNamespaceBundleResourceQuota(ns, last) })
	call("BrokerStats.GetLoadReport", func() (any, error) { return has(admin.BrokerStats().GetLoadReport()) })
	call("BrokerStats.GetTopics", func() (any, error) { return has(admin.BrokerStats().GetTopics()) })
	call("BrokerStats.GetMetrics", func() (any, error) { return has(admin.BrokerStats().GetMetrics()) })
	call("BrokerStats.GetMBeans", func() (any, error) { return has(admin.BrokerStats().GetMBeans()) })
}

func client(scheme, url string) {
	quiet := logrus.New()
	quiet.SetOutput(os.Stderr)
	quiet.SetLevel(logrus.PanicLevel)
	made, err := pulsar.NewClient(pulsar.ClientOptions{
		URL:               url,
		OperationTimeout:  limit,
		ConnectionTimeout: limit,
		Logger:            log.NewLoggerWithLogrus(quiet),
	})
	if err != nil {
		panic(err)
	}
	defer made.Close()
	for _, local := range []string{"plain", "pt", "größe-日本 a+b%c", "with space"} {
		call(scheme+" TopicPartitions "+local, func() (any, error) { return made.TopicPartitions("persistent://" + ns + "/" + local) })
	}
	call(scheme+" TopicPartitions(missing namespace)", func() (any, error) { return made.TopicPartitions("persistent://gonobody/ns/x") })
	does(scheme+" CreateProducer", func() error {
		producer, err := made.CreateProducer(pulsar.ProducerOptions{Topic: "persistent://" + ns + "/plain"})
		if err == nil {
			producer.Close()
		}
		return err
	})
	does(scheme+" Subscribe(pattern)", func() error {
		consumer, err := made.Subscribe(pulsar.ConsumerOptions{TopicsPattern: "persistent://" + ns + "/none-.*", SubscriptionName: "s"})
		if err == nil {
			consumer.Close()
		}
		return err
	})
}

func ends(admin pulsaradmin.Client) {
	does("Topics.Delete(partitioned)", func() error { return admin.Topics().Delete(topic("pt"), true, false) })
	does("Topics.Delete(missing)", func() error { return admin.Topics().Delete(topic("never"), true, false) })
	does("Namespaces.DeleteNamespace", func() error { return admin.Namespaces().DeleteNamespace(tenant + "/gone") })
	does("Namespaces.DeleteNamespace(missing)", func() error { return admin.Namespaces().DeleteNamespace(tenant + "/never") })
	does("Tenants.Delete(not empty)", func() error { return admin.Tenants().Delete(tenant) })
}
