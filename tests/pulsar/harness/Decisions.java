import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadSheddingStrategy;
import org.apache.pulsar.broker.loadbalance.ModularLoadManagerStrategy;
import org.apache.pulsar.broker.loadbalance.impl.AvgShedder;
import org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate;
import org.apache.pulsar.broker.loadbalance.impl.LeastResourceUsageWithWeight;
import org.apache.pulsar.broker.loadbalance.impl.OverloadShedder;
import org.apache.pulsar.broker.loadbalance.impl.RoundRobinBrokerSelector;
import org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder;
import org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.common.util.ObjectMapperFactory;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;

/**
 * What Pulsar's own strategy classes decide: a case a line on stdin, its decisions a line on stdout.
 *
 * <p>A case is its settings and cycles; a cycle is every broker's report and every bundle's averages,
 * as they stand in the znodes, the ages of recent unloads, and bundles that are to be placed. Strategies
 * live as long as a case, and so do the data that they are given, which are changed in place: as in
 * the modular load manager.
 */
public final class Decisions {
    private static final ObjectMapper JSON = ObjectMapperFactory.getMapper().getObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Configurator.setAllLevels("", Level.OFF);
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(JSON.writeValueAsString(new Case(JSON.readTree(line)).decided()));
        }
    }

    /** One load manager, as far as strategies see it. */
    private static final class Case {
        private final JsonNode input;
        private final ServiceConfiguration settings;
        private final World shedding;
        private final AvgShedder avg = new AvgShedder();
        private final Map<String, LoadSheddingStrategy> shedders = new LinkedHashMap<>();
        private final Map<String, ModularLoadManagerStrategy> placers = new LinkedHashMap<>();
        private final Map<String, World> worlds = new LinkedHashMap<>();

        Case(JsonNode input) throws Exception {
            this.input = input;
            Properties texts = new Properties();
            input.get("settings").fields().forEachRemaining(
                    each -> texts.setProperty(each.getKey(), each.getValue().asText()));
            settings = PulsarConfigurationLoader.create(texts, ServiceConfiguration.class);
            shedding = new World(settings);
            shedders.put("OverloadShedder", new OverloadShedder());
            shedders.put("ThresholdShedder", new ThresholdShedder());
            shedders.put("UniformLoadShedder", new UniformLoadShedder());
            shedders.put("AvgShedder", avg);
            placers.put("LeastLongTermMessageRate", new LeastLongTermMessageRate());
            placers.put("LeastResourceUsageWithWeight", new LeastResourceUsageWithWeight());
            placers.put("RoundRobinBrokerSelector", new RoundRobinBrokerSelector());
            placers.put("AvgShedder", new AvgShedder());
            for (String name : placers.keySet()) {
                // What is promised to a broker is remembered in the data: to each its own.
                worlds.put(name, new World(settings));
            }
        }

        ObjectNode decided() throws Exception {
            ObjectNode answer = JSON.createObjectNode();
            answer.set("name", input.get("name"));
            ArrayNode cycles = answer.putArray("cycles");
            for (JsonNode cycle : input.get("cycles")) {
                if (shedding.update(cycle)) {
                    for (LoadSheddingStrategy each : shedders.values()) {
                        each.onActiveBrokersChange(shedding.active());
                    }
                }
                ObjectNode decided = cycles.addObject();
                // Equals are taken in the order of hash maps: it is part of the answer, to be repeated.
                decided.set("brokers", names(shedding.data.getBrokerData().keySet()));
                decided.set("bundles", names(shedding.data.getBundleDataForLoadShedding().keySet()));
                ObjectNode shed = decided.putObject("shed");
                for (Map.Entry<String, LoadSheddingStrategy> each : shedders.entrySet()) {
                    shed.set(each.getKey(), shed(each.getValue()));
                }
                Map<?, ?> scores = (Map<?, ?>) kept(avg, "brokerScoreMap").orElseThrow();
                decided.set("scored", names(scores.keySet()));
                ObjectNode placed = decided.putObject("placed");
                for (String name : placers.keySet()) {
                    placed.set(name, placed(name, cycle));
                }
            }
            answer.set("late", late(cycles.get(cycles.size() - 1)));
            return answer;
        }

        private ArrayNode shed(LoadSheddingStrategy strategy) throws Exception {
            ArrayNode moves = JSON.createArrayNode();
            for (Map.Entry<String, String> each :
                    strategy.findBundlesForUnloading(shedding.data, settings).entries()) {
                ArrayNode move = moves.addArray().add(each.getKey()).add(each.getValue());
                if (strategy == avg) {
                    move.add(planned(each.getValue()));
                }
            }
            return moves;
        }

        private String planned(String bundle) throws ReflectiveOperationException {
            return selected(avg, shedding.active(), bundle, shedding.data).orElseThrow();
        }

        /** From 5.0 on a strategy gets the name of the bundle, by which it finds its plan. */
        private Optional<String> selected(
                ModularLoadManagerStrategy strategy, Set<String> candidates, String bundle, LoadData world)
                throws ReflectiveOperationException {
            BundleData data = world.getBundleData().get(bundle);
            for (Method method : ModularLoadManagerStrategy.class.getMethods()) {
                if (method.getName().equals("selectBrokerForBundle")) {
                    Object chosen = method.invoke(strategy, candidates, bundle, data, world, settings);
                    return ((Optional<?>) chosen).map(Object::toString);
                }
            }
            return strategy.selectBroker(candidates, data, world, settings);
        }

        private ArrayNode placed(String name, JsonNode cycle) throws Exception {
            World world = worlds.get(name);
            ModularLoadManagerStrategy strategy = placers.get(name);
            if (world.update(cycle)) {
                strategy.onActiveBrokersChange(world.active());
            }
            ArrayNode choices = JSON.createArrayNode();
            for (JsonNode asked : cycle.get("choices")) {
                String bundle = asked.get("bundle").asText();
                Set<String> candidates = new HashSet<>();
                asked.get("candidates").forEach(each -> candidates.add(each.asText()));
                BundleData data = world.data.getBundleData().get(bundle);
                Optional<String> chosen = selected(strategy, candidates, bundle, world.data);
                ObjectNode choice = choices.addObject().put("chosen", chosen.orElse(null));
                choice.set("order", names(candidates));
                choice.set("among", among(strategy));
                chosen.ifPresent(broker -> world.data.getBrokerData().get(broker)
                        .getPreallocatedBundleData().put(bundle, data));
            }
            return choices;
        }

        /** Where the plans of the last cycle lead once every bundle has been measured once more. */
        private ObjectNode late(JsonNode last) throws Exception {
            shedding.measureAgain();
            ObjectNode late = JSON.createObjectNode();
            for (JsonNode move : last.get("shed").get("AvgShedder")) {
                late.put(move.get(1).asText(), planned(move.get(1).asText()));
            }
            return late;
        }
    }

    /** Load data that are kept and changed, as the manager's are. */
    private static final class World {
        private final LoadData data = new LoadData();
        private final long graceMillis;

        World(ServiceConfiguration settings) {
            graceMillis = settings.getLoadBalancerSheddingGracePeriodMinutes() * 60_000L;
        }

        Set<String> active() {
            return new HashSet<>(data.getBrokerData().keySet());
        }

        /** Takes a cycle in; whether other brokers than before are there. */
        boolean update(JsonNode cycle) throws Exception {
            Set<String> before = active();
            Map<String, BundleData> bundles = data.getBundleData();
            Set<String> present = new HashSet<>();
            for (Map.Entry<String, JsonNode> each : entries(cycle.get("bundles"))) {
                BundleData newer = JSON.treeToValue(each.getValue(), BundleData.class);
                BundleData known = bundles.computeIfAbsent(each.getKey(), key -> new BundleData());
                known.setShortTermData(newer.getShortTermData());
                known.setLongTermData(newer.getLongTermData());
                known.setTopics(newer.getTopics());
                present.add(each.getKey());
            }
            bundles.keySet().retainAll(present);
            present.clear();
            for (Map.Entry<String, JsonNode> each : entries(cycle.get("brokers"))) {
                LocalBrokerData report = JSON.treeToValue(each.getValue(), LocalBrokerData.class);
                BrokerData broker = data.getBrokerData()
                        .computeIfAbsent(each.getKey(), key -> new BrokerData(report));
                broker.setLocalData(report);
                broker.getPreallocatedBundleData().clear();
                broker.getTimeAverageData()
                        .reset(report.getBundles(), bundles, new NamespaceBundleStats());
                present.add(each.getKey());
            }
            data.getBrokerData().keySet().retainAll(present);
            data.getRecentlyUnloadedBundles().clear();
            for (Map.Entry<String, JsonNode> each : entries(cycle.get("unloaded"))) {
                if (each.getValue().asLong() * 1000 < graceMillis) {
                    data.getRecentlyUnloadedBundles().put(each.getKey(), 0L);
                }
            }
            return !before.equals(active());
        }

        void measureAgain() {
            for (BrokerData broker : data.getBrokerData().values()) {
                broker.getLocalData().getLastStats().forEach((bundle, stats) ->
                        Optional.ofNullable(data.getBundleData().get(bundle))
                                .ifPresent(known -> known.update(stats)));
            }
        }
    }

    /** The equals among which the last choice was drawn; null where the class does not keep them. */
    private static JsonNode among(ModularLoadManagerStrategy strategy) throws Exception {
        Optional<Object> best = kept(strategy, "bestBrokers");
        return best.isPresent() ? names((Collection<?>) best.get()) : JSON.nullNode();
    }

    private static Optional<Object> kept(Object strategy, String name) throws Exception {
        for (Field field : strategy.getClass().getDeclaredFields()) {
            if (field.getName().equals(name)) {
                field.setAccessible(true);
                return Optional.of(field.get(strategy));
            }
        }
        return Optional.empty();
    }

    private static ArrayNode names(Collection<?> values) {
        ArrayNode names = JSON.createArrayNode();
        values.forEach(each -> names.add(each.toString()));
        return names;
    }

    private static Iterable<Map.Entry<String, JsonNode>> entries(JsonNode node) {
        return node::fields;
    }
}
