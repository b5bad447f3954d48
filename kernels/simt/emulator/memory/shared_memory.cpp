// Shared memory: one arena for the dynamic part, and the thread-local variables as they are touched.
//
// Those are found by the symbols of type STT_TLS of every loaded executable and library that has
// thread-local variables: a symbol's value is its offset in the object's thread-local block.

#include "kernels/simt/emulator/memory/shared_memory.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "kernels/simt/config.hpp"
#include "kernels/simt/error.hpp"

namespace ultra::simt::emulator {
namespace {

constexpr int kPoison = 0xff;
constexpr std::size_t kAlignment = 1024;  // what TMA asks for, the strictest
constexpr std::size_t kGap = 4096;        // so that an index just outside meets nothing

// A file as memory, empty if it cannot be read.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file >= 0 && fstat(file, &status) == 0) {
      size_ = static_cast<std::size_t>(status.st_size);
      void* const mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      data_ = mapped == MAP_FAILED ? nullptr : static_cast<const std::byte*>(mapped);
    }
    if (file >= 0) {
      close(file);
    }
  }
  ~MappedFile() {
    if (data_ != nullptr) {
      munmap(const_cast<std::byte*>(data_), size_);
    }
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // `count` objects at an offset; none if they are not all inside.
  template <typename T>
  [[nodiscard]] std::span<const T> at(std::size_t offset, std::size_t count) const {
    if (data_ == nullptr || offset > size_ || count > (size_ - offset) / sizeof(T)) {
      return {};
    }
    return {reinterpret_cast<const T*>(data_ + offset), count};
  }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// "(anonymous namespace)::transpose_kernel(float const*, float*)::tile" becomes
// "transpose_kernel::tile".
std::string readable(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? demangled.get() : symbol;
  const std::size_t last = name.rfind(")::");
  if (last == std::string::npos) {
    return name;
  }
  const std::string variable = name.substr(last + 3);
  int depth = 0;
  std::size_t open_bracket = last;
  for (;; --open_bracket) {
    depth += name[open_bracket] == ')' ? 1 : name[open_bracket] == '(' ? -1 : 0;
    if (depth == 0 || open_bracket == 0) {
      break;
    }
  }
  const std::string function = name.substr(0, open_bracket);
  const std::size_t arguments = std::min(function.find('<'), function.size());
  std::size_t start = function.rfind("::", arguments);
  start = start == std::string::npos ? function.rfind(' ', arguments) : start + 1;
  return function.substr(start == std::string::npos ? 0 : start + 1) + "::" + variable;
}

// A variable of a function: only those can be __shared__. Its name begins with _ZZ.
bool is_local(const char* symbol) { return std::strncmp(symbol, "_ZZ", 3) == 0; }

// What the loaded executable and libraries have.
struct Found {
  std::vector<StaticVariable>& variables;
  std::map<std::uintptr_t, std::string>& kernels;
  bool is_stripped = false;  // the executable
};

// A loaded executable or library: where its code is, and this thread's variables.
struct Loaded {
  std::uintptr_t code;
  std::uintptr_t variables;
};

void add_symbol(const ElfW(Sym) & symbol, const char* name, const Loaded& loaded, Found& found) {
  const auto type = ELF64_ST_TYPE(symbol.st_info);
  if (type == STT_TLS && symbol.st_size > 0 && is_local(name)) {
    found.variables.push_back({.name = readable(name),
                               .symbol = name,
                               .begin = loaded.variables + symbol.st_value,
                               .bytes = symbol.st_size});
  } else if (type == STT_FUNC && std::strstr(name, "_kernel") != nullptr) {
    found.kernels[loaded.code + symbol.st_value] = name;
  }
}

// Adds what the symbol table has; false if there is none.
bool add_symbols(const MappedFile& file, const Loaded& loaded, Found& all) {
  const auto header = file.at<ElfW(Ehdr)>(0, 1);
  if (header.empty()) {
    return false;
  }
  bool found = false;
  const auto sections = file.at<ElfW(Shdr)>(header[0].e_shoff, header[0].e_shnum);
  for (const auto& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) {
      continue;
    }
    found = true;
    const auto& names = sections[section.sh_link];
    const auto text = file.at<char>(names.sh_offset, names.sh_size);
    const auto symbols = file.at<ElfW(Sym)>(section.sh_offset, section.sh_size / sizeof(ElfW(Sym)));
    for (const auto& symbol : symbols) {
      if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < text.size()) {
        add_symbol(symbol, &text[symbol.st_name], loaded, all);
      }
    }
  }
  return found;
}

int add_object(dl_phdr_info* info, std::size_t, void* data) {
  auto& found = *static_cast<Found*>(data);
  const auto block = reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data);
  const std::span headers(info->dlpi_phdr, info->dlpi_phnum);
  const auto segment = std::find_if(headers.begin(), headers.end(),
                                    [](const auto& header) { return header.p_type == PT_TLS; });
  if (block == 0 || segment == headers.end()) {
    return 0;
  }
  const bool is_executable = info->dlpi_name == nullptr || *info->dlpi_name == '\0';
  const MappedFile file(is_executable ? "/proc/self/exe" : info->dlpi_name);
  const bool has_symbols = add_symbols(file, {.code = info->dlpi_addr, .variables = block}, found);
  found.is_stripped = found.is_stripped || (is_executable && !has_symbols);
  return 0;
}

}  // namespace

bool StaticVariables::belongs(const StaticVariable& variable, std::uintptr_t kernel) const {
  const bool of_some_kernel = variable.name.find("_kernel::") != std::string::npos ||
                              variable.name.find("_kernel<") != std::string::npos;
  const auto known = kernels_.find(kernel);
  if (!of_some_kernel || known == kernels_.end()) {
    return true;
  }
  // _Z4copyv has _ZZ4copyvE4tile.
  return variable.symbol.rfind("_Z" + known->second.substr(1) + "E", 0) == 0;
}

const StaticVariable* StaticVariables::find(std::uintptr_t address, std::uintptr_t kernel) {
  const auto begins_later = [](std::uintptr_t value, const StaticVariable& variable) {
    return value < variable.begin;
  };
  if (!is_read_) {
    Found found{.variables = variables_, .kernels = kernels_};
    dl_iterate_phdr(&add_object, &found);
    if (found.is_stripped) {
      throw SimtError(Fault::kLaunch,
                      "the emulator looks for a kernel's __shared__ arrays in the symbols of the "
                      "program, and found none; expected a program as the linker leaves it. Hint: "
                      "do not strip it");
    }
    is_read_ = true;
    std::sort(variables_.begin(), variables_.end(),
              [](const auto& left, const auto& right) { return left.begin < right.begin; });
  }
  const auto behind = std::upper_bound(variables_.begin(), variables_.end(), address, begins_later);
  if (behind == variables_.begin()) {
    return nullptr;
  }
  const StaticVariable& candidate = *(behind - 1);
  const bool inside = address - candidate.begin < candidate.bytes;
  return inside && belongs(candidate, kernel) ? &candidate : nullptr;
}

void SharedMemory::start_launch(std::size_t dynamic_bytes, std::uintptr_t kernel) {
  if (storage_ == nullptr) {
    storage_ = std::make_unique<std::byte[]>(kMostSharedBytes + kAlignment + 2 * kGap);
    void* first = storage_.get() + kGap;
    std::size_t space = kMostSharedBytes + kAlignment;
    dynamic_ = static_cast<std::byte*>(std::align(kAlignment, kMostSharedBytes, first, space));
  }
  // Variables of earlier launches are poisoned once more, then known anew when they are touched.
  start_block();
  arrays_.clear();
  recent_ = nullptr;
  kernel_ = kernel;
  arrays_.push_back({.name = "dynamic shared memory",
                     .begin = reinterpret_cast<std::uintptr_t>(dynamic_),
                     .bytes = dynamic_bytes,
                     .shadow = Shadow(dynamic_bytes)});
}

void SharedMemory::start_block() {
  for (const SharedArray& array : arrays_) {
    std::memset(reinterpret_cast<void*>(array.begin), kPoison, array.bytes);
  }
}

SharedArray* SharedMemory::find(std::uintptr_t address) {
  if (recent_ != nullptr && recent_->contains(address)) {
    return recent_;
  }
  for (SharedArray& array : arrays_) {
    if (array.contains(address)) {
      return recent_ = &array;
    }
  }
  const StaticVariable* const variable = variables_.find(address, kernel_);
  if (variable == nullptr) {
    return nullptr;
  }
  arrays_.push_back({.name = variable->name,
                     .begin = variable->begin,
                     .bytes = variable->bytes,
                     .shadow = Shadow(variable->bytes)});
  return recent_ = &arrays_.back();
}

const SharedArray* SharedMemory::last_before(std::uintptr_t address) const {
  const SharedArray* last = nullptr;
  for (const SharedArray& array : arrays_) {
    if (array.begin <= address && (last == nullptr || array.begin > last->begin)) {
      last = &array;
    }
  }
  return last;
}

}  // namespace ultra::simt::emulator
