// SPDX-License-Identifier: Apache-2.0
// simdjson On-Demand behind the C face of bench_simdjson.h.
#include "bench_simdjson.h"

#include <cstdint>
#include <simdjson.h>
#include <string_view>
#include <vector>

namespace
{
struct Tensor {
    std::string_view name;
    std::string_view dtype;
    std::size_t shape_at;
    std::size_t rank;
    std::uint64_t begin;
    std::uint64_t end;
};
} // namespace

struct bench_simdjson {
    simdjson::ondemand::parser parser;
    std::vector<Tensor> tensors;
    std::vector<std::uint64_t> shapes;
};

std::size_t bench_simdjson_padding()
{
    return simdjson::SIMDJSON_PADDING;
}

bench_simdjson *bench_simdjson_new()
{
    return new bench_simdjson;
}

void bench_simdjson_free(bench_simdjson *parser)
{
    delete parser;
}

static void extract_tensor(bench_simdjson &self, std::string_view name, simdjson::ondemand::object fields)
{
    Tensor tensor{ name, fields.find_field("dtype").get_string(), self.shapes.size(), 0, 0, 0 };
    for (auto dimension : fields.find_field("shape").get_array()) {
        self.shapes.push_back(dimension.get_uint64());
    }
    tensor.rank = self.shapes.size() - tensor.shape_at;
    std::uint64_t offsets[2] = { 0, 0 };
    std::size_t count = 0;
    for (auto offset : fields.find_field("data_offsets").get_array()) {
        offsets[count++ & 1] = offset.get_uint64();
    }
    tensor.begin = offsets[0];
    tensor.end = offsets[1];
    self.tensors.push_back(tensor);
}

std::size_t bench_simdjson_extract(bench_simdjson *self, const char *text, std::size_t size)
{
    self->tensors.clear();
    self->shapes.clear();
    try {
        auto document = self->parser.iterate(text, size, size + simdjson::SIMDJSON_PADDING);
        for (auto field : document.get_object()) {
            const std::string_view name = field.unescaped_key();
            if (name != "__metadata__") {
                extract_tensor(*self, name, field.value().get_object());
            }
        }
    } catch (const simdjson::simdjson_error &) {
        return 0;
    }
    return self->tensors.size();
}
