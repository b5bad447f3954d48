// Clusters from files, and what is wrong with some.
//
// Covers: common/replay/cluster/cluster_file.hpp, common/replay/cluster/cluster.hpp
// Covers: common/replay/cluster/placement.hpp

#include "common/replay/cluster/cluster_file.hpp"

#include <sys/stat.h>

#include <map>
#include <nlohmann/json.hpp>

#include "common/replay/cluster/placement.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::replay {
namespace {

using nlohmann::json;

json right() {
  return {{"name", "two cores"},
          {"gpu",
           {{"name", "core"},
            {"peak_flops", 2e11},
            {"memory_bandwidth", 2e10},
            {"memory_bytes", 4e9},
            {"measured_products", {{{"m", 64}, {"k", 64}, {"n", 64}, {"flops", 1e11}}}}}},
          {"gpus_per_node", 2},
          {"intra", {{"latency", 1e-6}, {"bandwidth", 5e9}}},
          {"inter", {{"latency", 2e-5}, {"bandwidth", 1.2e8}}}};
}

class ClusterFile : public ::testing::Test {
 protected:
  Cluster read(const json& content) {
    return read_cluster_file(folder_.write("cluster.json", content.dump()));
  }
  /// Changes one value, by its JSON pointer, and expects the error.
  template <class Thrown>
  void refuses(const char* where, const json& value, const std::vector<std::string>& words) {
    json content = right();
    content[json::json_pointer(where)] = value;
    SCOPED_TRACE(where);
    test::expect_message<Thrown>([&] { (void)read(content); }, words);
  }

  ultra::test::TemporaryFolder folder_;
};

TEST_F(ClusterFile, EverythingIsRead) {
  json content = right();
  content["straggler"] = 0.01;
  content["network_steals"] = 0.3;
  content["gpu"]["efficiency"] = {{"network", 0.9}};
  const Cluster cluster = read(content);
  EXPECT_EQ(cluster.name, "two cores");
  EXPECT_EQ(cluster.gpu.peak_flops, 2e11);
  ASSERT_EQ(cluster.gpu.measured_products.size(), 1U);
  EXPECT_EQ(cluster.gpu.measured_products[0].flops, 1e11);
  EXPECT_EQ(cluster.gpu.efficiency.network, 0.9);
  EXPECT_EQ(cluster.gpu.efficiency.products, Efficiency{}.products);
  EXPECT_EQ(cluster.nics_per_node, 2);
  EXPECT_EQ(cluster.inter.bandwidth, 1.2e8);
  EXPECT_EQ(cluster.straggler, 0.01);
  EXPECT_EQ(cluster.network_steals, 0.3);
}

TEST_F(ClusterFile, ANetworkByNodes) {
  json content = right();
  content["network_by_nodes"] = {{{"nodes", 2}, {"part", 0.8}}, {{"nodes", 8}, {"part", 0.2}}};
  const Cluster cluster = read(content);
  const double all = 2 * 1.2e8;
  // As measured; between two numbers of nodes a straight line between logarithms; the nearest beyond.
  EXPECT_DOUBLE_EQ(cluster.node_bandwidth(2), 0.8 * all);
  EXPECT_DOUBLE_EQ(cluster.node_bandwidth(4), 0.4 * all);
  EXPECT_DOUBLE_EQ(cluster.node_bandwidth(8), 0.2 * all);
  EXPECT_DOUBLE_EQ(cluster.node_bandwidth(100), 0.2 * all);
  EXPECT_DOUBLE_EQ(cluster.rank_network(8), 0.2 * all / cluster.gpus_per_node);
  refuses<ConfigError>("/network_by_nodes", {{{"nodes", 1}, {"part", 0.8}}},
                       {"\"network_by_nodes\" number 1: \"nodes\" is 1", "more than 1"});
  refuses<ConfigError>("/network_by_nodes",
                       {{{"nodes", 4}, {"part", 0.8}}, {{"nodes", 4}, {"part", 0.7}}},
                       {"\"network_by_nodes\" number 2: \"nodes\" is 4", "more than 4"});
  refuses<ConfigError>("/network_by_nodes", {{{"nodes", 2}, {"part", 1.5}}},
                       {"number 1: \"part\" is 1.5", "from 1e-06 to 1"});
}

TEST_F(ClusterFile, MissingKeysAreNamed) {
  for (const char* key : {"gpu", "gpus_per_node", "intra", "inter"}) {
    json content = right();
    content.erase(key);
    test::expect_message<FileError>([&] { (void)read(content); }, {"lacks \"" + std::string(key)});
  }
  json content = right();
  content["gpu"].erase("peak_flops");
  test::expect_message<FileError>([&] { (void)read(content); },
                                  {"\"gpu\" lacks \"peak_flops\"", "It has: ", "memory_bandwidth"});
}

TEST_F(ClusterFile, WrongTypesAndNumbers) {
  refuses<FileError>("/gpu/peak_flops", "fast", {"\"peak_flops\" is", "must be a number"});
  refuses<FileError>("/gpu", 3, {"\"gpu\" is '3'", "must be an object"});
  refuses<FileError>("/gpus_per_node", 1.5, {"gpus_per_node", "a whole number above 0"});
  refuses<FileError>("/gpu/measured_products", 1, {"measured_products", "a list of objects"});
  refuses<FileError>("/name", 5, {"\"name\" is '5'", "a text in quotes"});
  refuses<ConfigError>("/gpu/memory_bytes", -1, {"\"gpu\": \"memory_bytes\" is -1", "from 1 to"});
  refuses<ConfigError>("/intra/latency", -1e-6, {"\"intra\": \"latency\" is -1e-06", "from 0 to"});
  refuses<ConfigError>("/inter/bandwidth", 0, {"\"inter\": \"bandwidth\" is 0", "from 1 to"});
  refuses<ConfigError>("/gpu/efficiency", {{"products", 1.5}},
                       {"\"gpu\": \"efficiency\": \"products\" is 1.5", "from 1e-06 to 1"});
  refuses<ConfigError>("/nics_per_node", 3, {"\"nics_per_node\" is 3", "from 1 to gpus_per_node"});
  refuses<ConfigError>("/straggler", 2, {"\"straggler\" is 2"});
  refuses<ConfigError>("/network_steals", 1.5, {"\"network_steals\" is 1.5", "from 0 to 1"});
}

TEST_F(ClusterFile, NumbersOfNoMachineAreNamedWithFileAndPlace) {
  const std::string file = folder_.path("cluster.json");
  for (const char* key : {"peak_flops", "memory_bandwidth", "flash_attention", "memory_bytes"}) {
    for (const double value : {1e-308, 1e300}) {
      refuses<ConfigError>(("/gpu/" + std::string(key)).c_str(), value,
                           {file + ": \"gpu\": \"" + key + "\" is 1e", "It must be from"});
    }
  }
  refuses<ConfigError>("/gpu/efficiency", {{"memory", 5}},
                       {file + ": \"gpu\": \"efficiency\": \"memory\" is 5."});
  refuses<ConfigError>("/gpu/fp8_flops", -1, {file, "\"fp8_flops\" is -1"});
  refuses<ConfigError>("/intra/bandwidth", 1e-300, {file + ": \"intra\": \"bandwidth\" is 1e-300"});
  refuses<ConfigError>("/restart_seconds", 1e300, {file + ": \"restart_seconds\" is 1e+300"});
  refuses<ConfigError>("/gpu/measured_products/1", {{"m", 1}, {"k", -1}, {"n", 1}, {"flops", 1e9}},
                       {file + ": \"gpu\": \"measured_products\" number 2: \"k\" is -1"});
  for (const char* key : {"/gpu/multiprocessors", "/gpus_per_node", "/nics_per_node"}) {
    refuses<FileError>(key, 2147483648, {file, "is 2147483648. It must be at most 1048576"});
  }
}

TEST_F(ClusterFile, NamesFitIntoALine) {
  const std::string longest(200, 'n');
  json content = right();
  content["name"] = longest;
  EXPECT_EQ(read(content).name, longest);
  refuses<FileError>("/name", longest + "n", {"\"name\" has 201 bytes. It must have at most 200"});
  refuses<FileError>("/gpu/name", std::string(5'000'000, 'n'), {"\"gpu\": \"name\" has 5000000"});
}

TEST_F(ClusterFile, APipeIsRefusedWithoutWaiting) {
  const std::string pipe = folder_.path("pipe.json");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  test::expect_message<FileError>([&] { (void)cluster_by_name(pipe, "--on"); }, {"it is a pipe"});
}

TEST_F(ClusterFile, UnknownKeysAreRefused) {
  refuses<FileError>("/gpu/peak_flop", 1, {"no key 'peak_flop'", "peak_flops"});
  refuses<FileError>("/nodes", 4, {"no key 'nodes'"});
}

TEST(NamedClusters, AreValidAndFound) {
  for (const Cluster& cluster : named_clusters()) {
    EXPECT_NO_THROW(cluster.validate(cluster.name)) << cluster.name;
    EXPECT_EQ(find_cluster(cluster.name), &cluster);
  }
  test::expect_message<ConfigError>([] { (void)cluster_by_name("dgx-z", "--on"); },
                                    {"dgx-z", "dgx-h100", ".json"});
}

// Groups on nodes, counted rank by rank.

class Placement : public ultra::test::RandomTest {};

TEST_F(Placement, IsWhatCountingFinds) {
  for (int round = 0; round < 100; ++round) {
    const int node = static_cast<int>(random.between(1, 9));
    std::vector<int> members;
    std::map<int, std::size_t> on_node;
    for (int rank = 0; rank < 50; ++rank) {
      if (random.between(0, 2) != 0) continue;
      members.insert(
          members.begin() + static_cast<std::ptrdiff_t>(random.between(0, members.size())), rank);
      ++on_node[rank / node];
    }
    if (members.empty()) continue;
    const auto fullest =
        std::ranges::max_element(on_node, {}, [](const auto& one) { return one.second; });
    EXPECT_EQ(placement_of(members, node),
              (GroupPlacement{
                  .ranks = members.size(), .per_node = fullest->second, .nodes = on_node.size()}));
  }
}

}  // namespace
}  // namespace ultra::replay
