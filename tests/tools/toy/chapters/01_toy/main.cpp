// A "training run" in a few lines: two steps, with the metrics that every chapter writes.

#include <cstdio>
#include <cstring>

#include "chapters/01_toy/toy.hpp"

namespace {

void write_metrics(const char* path, double loss) {
  std::FILE* file = std::fopen(path, "w");
  for (int step = 1; step <= 2; ++step) {
    std::fprintf(file,
                 "{\"event\":\"step\",\"step\":%d,\"loss\":%.17g,\"grad_norm\":1,"
                 "\"tokens_per_second\":100}\n",
                 step, loss / step);
  }
  std::fprintf(file,
               "{\"event\":\"summary\",\"losses\":[%.17g,%.17g],\"ranks\":[{\"rank\":0,"
               "\"peak_bytes\":{\"parameters\":1048576,\"total\":2097152},"
               "\"sent_bytes\":{\"all_reduce\":3000000}}]}\n",
               loss, loss / 2);
  std::fclose(file);
}

}  // namespace

int main(int argc, char** argv) {
  double loss = ultra::toy::add(1, 2);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--inexact") == 0) {
      loss *= 1.0 + 1e-7;
    } else if (std::strcmp(argv[i], "--metrics") == 0 && i + 1 < argc) {
      write_metrics(argv[i + 1], loss);
    }
  }
  std::printf("loss %g, twice that %d\n", loss, ultra::toy::twice(3));
}
