#include "tests/chapters/11_five_d/composition/explained.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "chapters/11_five_d/five_d.hpp"

namespace ultra::five_d::test {
namespace {

struct Meaning {
  const char* prefix;                 ///< of a feature's name
  std::vector<const char*> in_table;  ///< what the table calls it, and what it needs
};

/// The longest prefix counts.
const std::vector<Meaning>& meanings() {
  static const std::vector<Meaning> all = {
      {"--zero", {"--zero 1, 2 or 3"}},
      {"--zero 1", {"--zero 1, 2 or 3", "--zero 1 or 2"}},
      {"--zero 2", {"--zero 1, 2 or 3", "--zero 1 or 2"}},
      {"--zero 3", {"--zero 1, 2 or 3", "--zero 3"}},
      {"--zero++", {"--zero 1, 2 or 3", "--zero 3", "--zero++", "--zero++ TECHNIQUES"}},
      {"--hybrid-shard", {"--zero 1, 2 or 3", "--hybrid-shard"}},
      {"--offload", {"--zero 1, 2 or 3"}},
      {"--offload optimizer+params",
       {"--zero 1, 2 or 3", "--zero 3", "--offload optimizer+params"}},
      {"--overlap", {"--overlap"}},
      {"--overlap per-parameter", {"--overlap", "--overlap per-parameter"}},
      {"--bucket-mb", {"--bucket-mb"}},
      {"--check-replicas", {"--check-replicas"}},
      {"--compress", {"--compress"}},
      {"--val-data", {"--val-data"}},
      {"--resume", {"--checkpoint"}},
      {"--tied-embeddings", {"a tied token table"}},
      {"--mtp", {"--mtp"}},
      {"--tp", {"--tp"}},
      {"--sp", {"--tp"}},
      {"--cp", {"--cp"}},
      {"--cp-method ulysses", {"--cp", "--cp-method ulysses or ulysses+ring"}},
      {"--attention mla-absorbed", {"--attention mla-absorbed"}},
      {"--pp", {"--pp"}},
      {"--schedule", {"--pp"}},
      {"--schedule zb-v", {"--pp", "--schedule zb-v or dualpipe-v"}},
      {"--schedule dualpipe-v", {"--pp", "--schedule zb-v or dualpipe-v"}},
      {"--ep", {"--experts"}},
      {"--experts", {"--experts"}},
      {"--balance", {"--experts"}},
      {"--capacity-factor", {"--experts"}}};
  return all;
}

std::set<std::string> names_in_table(const std::vector<Feature>& some) {
  std::set<std::string> names;
  for (const Feature feature : some) {
    const std::string& name = features()[feature];
    const Meaning* longest = nullptr;
    for (const Meaning& meaning : meanings()) {
      const std::string prefix = meaning.prefix;
      if (!name.starts_with(prefix)) continue;
      if (longest == nullptr || prefix.size() > std::string(longest->prefix).size()) {
        longest = &meaning;
      }
    }
    if (longest != nullptr) names.insert(longest->in_table.begin(), longest->in_table.end());
  }
  return names;
}

}  // namespace

std::vector<train::Conflict> table_of_combinations() {
  return conflicts_of(setup_of(Configuration{}));
}

bool excluded(const std::vector<train::Conflict>& table, const std::vector<Feature>& some) {
  const std::set<std::string> names = names_in_table(some);
  return std::ranges::any_of(table, [&](const train::Conflict& row) {
    return names.contains(row.first) && names.contains(row.second);
  });
}

}  // namespace ultra::five_d::test
