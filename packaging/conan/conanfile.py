# SPDX-License-Identifier: Apache-2.0
"""Coffer for Conan 2. In a checkout it packages the checkout; from conandata.yml's archive otherwise."""

import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, load, rmdir

required_conan_version = ">=2.0"


class Coffer(ConanFile):
    name = "coffer"
    license = "Apache-2.0"
    description = "Reads, checks, slices, edits and writes safetensors files"
    topics = ("safetensors", "tensors", "mmap")
    package_type = "library"
    languages = "C"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "cli": [True, False]}
    default_options = {"shared": False, "fPIC": True, "cli": False}
    implements = ["auto_shared_fpic"]
    exports_sources = ()

    @property
    def _checkout(self):
        folder = os.path.join(self.recipe_folder, "..", "..")
        return folder if os.path.exists(os.path.join(folder, "include", "coffer", "base.h")) else None

    def set_version(self):
        if self._checkout and not self.version:
            text = load(self, os.path.join(self._checkout, "include", "coffer", "base.h"))
            self.version = text.split('#define COFFER_VERSION_STRING "')[1].split('"')[0]

    def export_sources(self):
        if self._checkout:
            for pattern in ("CMakeLists.txt", "LICENSE", "THIRD_PARTY.txt", "cli/*", "cmake/*", "include/*", "src/*"):
                copy(self, pattern, self._checkout, self.export_sources_folder)

    def requirements(self):
        self.requires("xxhash/[>=0.8 <1]", visible=False, libs=False)  # only its header, for XXH3

    def layout(self):
        cmake_layout(self)

    def source(self):
        if self.conan_data:
            get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["BUILD_TESTING"] = False
        toolchain.cache_variables["COFFER_BUILD_CLI"] = bool(self.options.cli)
        for part in ("BENCH", "EXAMPLES", "FUZZ"):
            toolchain.cache_variables[f"COFFER_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        for name in ("LICENSE", "THIRD_PARTY.txt"):
            copy(self, name, self.source_folder, os.path.join(self.package_folder, "licenses"))
        for folder in ("cmake", "pkgconfig"):  # which Conan writes itself
            rmdir(self, os.path.join(self.package_folder, "lib", folder))

    def package_info(self):
        self.cpp_info.libs = ["coffer"]
        self.cpp_info.set_property("cmake_file_name", "coffer")
        self.cpp_info.set_property("cmake_target_name", "coffer::coffer" if self.options.shared else "coffer::static")
        self.cpp_info.set_property("pkg_config_name", "coffer")
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread", "dl"]
